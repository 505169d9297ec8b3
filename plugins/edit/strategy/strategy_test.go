package strategy_test

import (
	"errors"
	"strings"
	"testing"

	"toolhost.dev/plugins/edit/strategy"
)

// TestEachStrategy checks the differences that each strategy tolerates, and the resulting file.
func TestEachStrategy(t *testing.T) {
	for _, c := range []struct {
		name, strategy         string
		before, old, new, want string
		all                    bool
	}{
		{"literally", strategy.Exact, "a b\nc\n", "b\nc", "x", "a x\n", false},
		{"a replacement is literal", strategy.Exact, "a\n", "a", `$& \1 $$`, `$& \1 $$` + "\n", false},
		{"a common line keeps its ending", strategy.Exact, "a\r\nb\nc\n", "a\nb\n", "a\nx\n", "a\r\nx\nc\n", false},
		{"a new line ends as the old one", strategy.Exact, "a\r\nb\nc\n", "a\n", "x\ny\n", "x\r\ny\r\nb\nc\n", false},
		{"no newline is added at the end", strategy.Exact, "a\nb", "b", "c\n", "a\nc", false},
		{"nor dropped", strategy.Exact, "a\nb\n", "\nb\n", "", "a\n", false},
		{"the last line goes", strategy.Exact, "a\nb", "b", "", "a", false},
		{"carriage returns alone", strategy.Exact, "a\rb\rc\r", "a\nb", "x\ny\nz", "x\ry\rz\rc\r", false},

		{"blanks at the end of lines", strategy.LineTrimmed, "a  \n  b\nc\n", "a\n  b \n", "a\n  x\n", "a  \n  x\nc\n", false},
		{"the last line without its newline", strategy.LineTrimmed, "a\nb", "b\n", "x\n", "a\nx", false},
		{"a line after a last line without newline", strategy.LineTrimmed, "a\nb", "b\n", "b\nc\n", "a\nb\nc", false},

		{"a slip in a line that stays", strategy.BlockAnchor, "func main() {\n\treceeive(message, timeout)\n}\n",
			"func main() {\n\treceive(message, timeout)\n}\n", "func main() {\n\treceive(message, timeout)\n\tdone()\n}\n", "func main() {\n\treceeive(message, timeout)\n\tdone()\n}\n", false},
		{"a slip in a line that goes", strategy.BlockAnchor, "func main() {\n\treceive(message, timeout)\n}\n",
			"func main() {\n\treceeive(message, timeout)\n}\n", "func main() {\n\tsend(message)\n}\n", "func main() {\n\tsend(message)\n}\n", false},

		{"runs of blanks", strategy.Whitespace, "x =  1\ny   = 2\n", "y = 2", "y = 3", "x =  1\ny = 3\n", false},
		{"inside a line", strategy.Whitespace, "let x =  1 + y; // z\n", "x = 1", "x = 2", "let x = 2 + y; // z\n", false},
		{"typographic characters stay", strategy.Whitespace, "it’s “fine” – ok\n", "it's \"fine\" - ok", "it's \"good\" - ok", "it’s “good” – ok\n", false},
		{"curly quotes do not come in", strategy.Whitespace, "f('a')\n", "f(‘a’)", "f(‘b’)", "f('b')\n", false},
		{"quotes that old_string does not have", strategy.Whitespace, "- name: 'A'\n", "- name: ‘A’\n", "- name: ‘A’\n  run: ‘echo “hi”’\n", "- name: 'A'\n  run: 'echo \"hi\"'\n", false},
		{"quotes stay when dashes are plain", strategy.Whitespace, "a - b\n", "a – b\n", "a – “b”\n", "a - “b”\n", false},
		{"normal form", strategy.Whitespace, "caf\u00e9 one\n", "cafe\u0301 one", "tea", "tea\n", false},

		{"indented deeper", strategy.Indentation, "f:\n    if a:\n        b\n", "if a:\n    b\n", "if a:\n    c\n    d\n", "f:\n    if a:\n        c\n        d\n", false},
		{"indented less", strategy.Indentation, "a:\n  b\n", "    a:\n      b\n", "    a:\n      c\n", "a:\n  c\n", false},

		{"new is indented as the file already", strategy.Indentation, "f:\n    a()\n    b()\n", "a()\nb()\n", "    a()\n    c()\n", "f:\n    a()\n    c()\n", false},
		{"by position", strategy.LineTrimmed, "  a()\n    b()\n", "a()\nb()\n", "x()\ny()\n", "  x()\n    y()\n", false},
		{"a blank line that old ends before and new does not", strategy.LineTrimmed, "a \nb \n\nc\n", "a\nb\n", "a\nx", "a \nx\nc\n", false},
		{"an ellipsis that replaces nothing", strategy.Exact, "def f():\n    a()\n", "    a()\n", "    a()\n    ...\n    # the rest\n", "def f():\n    a()\n    ...\n    # the rest\n", false},
		{"an ellipsis as a statement", strategy.Exact, "def f():\n    pass\n", "    pass\n", "    ...\n", "def f():\n    ...\n", false},
		{"a comment that begins like a placeholder", strategy.Exact, "a()\nb()\n", "b()\n", "// the rest of the requests need no lock, so release it\nc()\n", "a()\n// the rest of the requests need no lock, so release it\nc()\n", false},
		{"an ellipsis that the file has", strategy.LineTrimmed, "a() \n// ...\nb()\n", "a()\n// ...\nb()\n", "a()\n// ...\nc()\n", "a() \n// ...\nc()\n", false},

		{"as JSON", strategy.Escape, "a(\"x\")\n\tb\n", `a(\"x\")\n\tb`, `a(\"y\")\n\tc`, "a(\"y\")\n\tc\n", false},
		{"escaped quotes", strategy.Escape, "a(\"x\")\nb\n", "a(\\\"x\\\")\nb", "a(\\\"y\\\")\nb", "a(\"y\")\nb\n", false},
		{"escaped in old alone", strategy.Escape, "a(\"x\")\nb\n", "a(\\\"x\\\")\nb", "a(\"y\")\nb", "a(\"y\")\nb\n", false},
		{"entities", strategy.Escape, "if a < b && c {\n", "if a &lt; b &amp;&amp; c {", "if a &gt; b {", "if a > b {\n", false},
		{"line numbers", strategy.Escape, "a\n  b\nc\n", " 9| a\n10|   b\n", " 9| a\n10|   x\n11|   y\n", "a\n  x\n  y\nc\n", false},

		{"the line's own number", strategy.Escape, "a\nweb\n", "2: web\n", "2: api\n", "a\napi\n", false},
		{"blank edges", strategy.Boundary, "a\nb\nc\n", "\n\nb\n\n", "\n\nx\n\n", "a\nx\nc\n", false},
		{"as few blank lines as possible", strategy.Boundary, "a\n\nb\nc\n", "\n\n\nb\n", "\n\n\nx\n", "a\n\nx\nc\n", false},

		{"blank lines between", strategy.ContextAware, "one\n\ntwo\nthree\n", "one\ntwo\nthree\n", "one\ntwo\n3\n", "one\n\ntwo\n3\n", false},
		{"fewer blank lines", strategy.ContextAware, "one\ntwo\nthree\n", "one\n\ntwo\nthree\n", "one\n\ntwo\n3\n", "one\ntwo\n3\n", false},

		{"all, as they are", strategy.Exact, "a b a\n", "a", "x", "x b x\n", true},
		{"all, each with its indentation", strategy.MultiOccurred, "  a()\nb\n\ta()\n", "    a()\n", "    a()\n    c()\n", "  a()\n  c()\nb\n\ta()\n\tc()\n", true},
	} {
		t.Run(c.strategy+" "+c.name, func(t *testing.T) {
			got, err := strategy.Apply([]byte(c.before), strategy.Edit{Old: c.old, New: c.new, All: c.all}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Text) != c.want || got.Strategy != c.strategy {
				t.Errorf("%s made %q, want %s to make %q", got.Strategy, got.Text, c.strategy, c.want)
			}
		})
	}
}

// TestLargeFileKeepsItsEnd checks a file that is too large to convert. The last line must keep its line ending, even if
// most other lines have a different one.
func TestLargeFileKeepsItsEnd(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("x", 98)+"\r\n", strategy.MaxFuzzy/100+1)
	for _, end := range []string{"\n", "\r\n", ""} {
		got, err := strategy.Apply([]byte("here\r\n"+lines+"last"+end), strategy.Edit{Old: "here\n", New: "there\nand there\n"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Text) != "there\r\nand there\r\n"+lines+"last"+end {
			t.Errorf("with %q at the end it is %q…%q", end, got.Text[:30], got.Text[len(got.Text)-30:])
		}
	}
}

// TestRefusals checks that doubtful edits are refused. A less strict tool would apply these edits at a wrong place.
func TestRefusals(t *testing.T) {
	block := "func a() {\n\tif ready(first) {\n\t\tlaunch(rocket)\n\t}\n}\n"
	for _, c := range []struct {
		name             string
		kind             strategy.Kind
		before, old, new string
		all              bool
		message          string
	}{
		{"twice", strategy.Ambiguous, "a\nb\na\n", "a\n", "x\n", false, "occurs 2 times in the file, on lines 1, 3"},
		{"overlapping", strategy.Ambiguous, "aaa\n", "aa", "x", false, "2 times"},
		{"two depths, neither exact", strategy.Ambiguous, "  a()\n    a()\n", "\ta()\n", "\tb()\n", false, "line-trimmed"},
		{"an exact ambiguity is not resolved by another strategy", strategy.Ambiguous, "if x {\n\tif x {\n", "if x {", "y", false, "2 times"},
		{"equal but for case", strategy.NotFound, "Const A = 1\n", "const a = 1", "x", false, ""},
		{"half of the middle", strategy.NotFound, "func f() {\n\tkeepState()\n\tremoveData()\n}\n", "func f() {\n\tkeepState()\n\tenabled = true\n}\n", "x", false, ""},
		{"another number", strategy.NotFound, strings.Replace(block, "first", "item12", 1), strings.Replace(block, "first", "item13", 1), "x", false, ""},
		{"another word", strategy.NotFound, strings.Replace(block, "launch", "unlaunch", 1), block, "x", false, ""},
		{"a word that is another one in the file", strategy.NotFound, "rockets()\n" + block, strings.Replace(block, "rocket", "rockets", 1), "x", false, ""},
		{"two blocks alike", strategy.NotFound, block + strings.Replace(block, "rocket", "rocked", 1), strings.Replace(block, "rocket", "rockett", 1), "x", false, ""},
		{"another operator", strategy.NotFound, "func f() {\n\treturn first.value < second.value\n}\n", "func f() {\n\treturn first.value > second.value\n}\n", "x", false, ""},
		{"a slip repeated in new", strategy.Refused, "func main() {\n\treceive(message, timeout)\n}\n", "func main() {\n\treceeive(message, timeout)\n}\n", "func main() {\n\treceeive(message, later)\n}\n", false, "receeive"},
		{"all that are alike", strategy.NotFound, block, strings.Replace(block, "rocket", "rokcet", 1), "x", true, ""},
		{"anchors of punctuation", strategy.NotFound, "{\n\tcompute(values)\n}\n", "{\n\tcompute(valeus)\n}\n", "x", false, ""},
		{"nothing but blanks", strategy.Ambiguous, "a\n\nb\n", "\n", "x", false, "blanks only"},
		{"a gap in old", strategy.Refused, "a()\nb()\nc()\n", "a()\n// ...\nc()\n", "x\n", false, "// ..."},
		{"a gap in new", strategy.Incomplete, "a()\nb()\n", "a()\nb()\n", "x()\n// ... existing code ...\n", false, "existing code"},
		{"an ellipsis for statements", strategy.Incomplete, "a()\nb()\nc()\n", "a()\nb()\nc()\n", "a()\n// ...\nc()\n", false, "// ..."},
		{"words for statements", strategy.Incomplete, "def f():\n    a()\n    b()\n", "    a()\n    b()\n", "    x()\n    # rest unchanged\n", false, "# rest unchanged"},
		{"a block comment for statements", strategy.Incomplete, "a()\nb()\n", "a()\nb()\n", "/* remaining code */\n", false, "remaining code"},
		{"an ellipsis for a body", strategy.Incomplete, "def f():\n    a()\n    b()\n", "    a()\n    b()\n", "    ...\n", false, "..."},
		{"two kinds of quotes", strategy.Refused, "it’s\n'A'\n", "it’s\n‘A’\n", "it’s\n‘A’\n‘B’\n", false, "both ASCII quotes and typographic"},
		{"no change", strategy.NoChange, "it’s\n", "it's", "it’s", false, ""},
		{"equal", strategy.NoChange, "a\n", "a", "a", false, ""},
		{"escaped in part", strategy.Refused, "a(\"x\")\nb\n", "a(\\\"x\\\")\nb", "a(\\\"y\\\", \"z\")\nb", false, "partly"},
		{"indentation that cannot be told", strategy.Refused, "\tif a {\n\t\tb()\n\t}\n", "  if a {\n    b()\n  }\n", "  if a {\n     b()\n     c()\n  }\n", false, "indented"},
		{"a far larger place", strategy.NotFound, "a b\n\n\n\n\n\n\nc d\n", "a b\nc d\n", "x\n", false, ""},
		{"a number that is not the line's", strategy.NotFound, "a\nweb\n", "80: web\n", "81: api\n", false, ""},
		{"alike here, equal there but for blanks", strategy.Ambiguous, "begin it\n\tfirst_value(one, two)\nend(it)\nbegin  it\n\tfirst_value(one,  two),\nend(it)\n",
			"begin it\n\tfirst_value(one, two),\nend(it)\n", "x", false, "whitespace-normalised"},
		{"two blocks nearly alike", strategy.NotFound, "begin()\n\tfirst_value_of_it(one)\n\tsecond_value_of_it(two)\nend_all()\n\nbegin()\n\tfirst_value_of_it(one)\n\tsxcxnx_vxlx_xf_it(two)\nend_all()\n",
			"begin()\n\tfirst_value_of_it(one)\n\tsecond_valu_of_it(two)\nend_all()\n", "x", false, ""},
		{"blank lines at other edges", strategy.Refused, "b\n\nc\n\nb\n", "\n\nb\n\n\n", "\n\nx\n\n\n", true, ""},
		{"two indentations that are one in the file", strategy.Refused, "  f() {\n    // a\n  }\n", "f() { \n    // a\n  }\n", "f() {\n  // b\n}\n", false, "indented"},
		{"in the middle of a word", strategy.NotFound, "max =  1\n", "x = 1", "y", false, ""},
		{"in part of the lines", strategy.NotFound, "func a() {\n\tf()\n}\n", "{\n    f()\n}", "{\n    g()\n}", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := strategy.Apply([]byte(c.before), strategy.Edit{Old: c.old, New: c.new, All: c.all}, nil)
			var e *strategy.Error
			if !errors.As(err, &e) {
				t.Fatalf("%s made %q", got.Strategy, got.Text)
			}
			if e.Kind != c.kind || !strings.Contains(e.Message, c.message) {
				t.Errorf("got %d %q, want kind %d with %q", e.Kind, e.Message, c.kind, c.message)
			}
		})
	}
}

func TestSetNarrows(t *testing.T) {
	const once, twice = "\ta()\n\tb()\n", "\ta()\n\tb()\n\t\ta()\n"
	for _, c := range []struct {
		name, text, old string
		set             strategy.Set
		ok              bool
	}{
		{"exact", once, "\ta()", strategy.Set{strategy.Exact}, true},
		{"all exact", twice, "a", strategy.Set{strategy.Exact}, true},
		{"a shift needs its name", once, "a()\nb()\n", strategy.Set{strategy.Exact, strategy.LineTrimmed}, false},
		{"and has it", once, "a()\nb()\n", strategy.Set{strategy.Exact, strategy.Indentation}, true},
		{"no shift", once, "\ta() \n\tb()\n", strategy.Set{strategy.Indentation}, false},
		{"what is not allowed stays so in a laxer strategy", once, "a()\nb()\n", strategy.Set{strategy.Exact, strategy.LineTrimmed, strategy.Whitespace}, false},
		{"all but exact", twice, "  a()\n", strategy.Set{strategy.Exact, strategy.LineTrimmed}, false},
		{"all but exact, allowed", twice, "  a()\n", strategy.Set{strategy.LineTrimmed, strategy.MultiOccurred}, true},
	} {
		_, err := strategy.Apply([]byte(c.text), strategy.Edit{Old: c.old, New: "x", All: c.text == twice}, c.set)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestNearestShowsBlanks(t *testing.T) {
	_, err := strategy.Apply([]byte("one()\n\ttwo(first, second) \nthree()\n"), strategy.Edit{Old: "one()\n  two(first, third)\nthree()\n", New: "x"}, nil)
	if err == nil {
		t.Fatal("it was found")
	}
	want := "The most similar text is line 1 to 3 (· is a space, → a tab):\n1| one()\n2| →two(first, second)·\n3| three()\nthe first difference is line 2, where old_string has\n   ··two(first, third)"
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
}

func TestNearLineBreaksTies(t *testing.T) {
	lines := make([]string, 200)
	for i := range lines {
		lines[i] = "x"
	}
	lines[9], lines[149] = "target", "target"
	text := strings.Join(lines, "\n") + "\n"
	edit := strategy.Edit{Old: "target\n", New: "changed\n", WholeLines: true}
	for near, want := range map[int]int{0: 0, 5: 10, 140: 150, 80: 0} {
		edit.Near = near
		got, err := strategy.Apply([]byte(text), edit, nil)
		switch {
		case want == 0 && err == nil:
			t.Errorf("near %d: line %d was changed", near, got.Sites[0].Start)
		case want > 0 && (err != nil || got.Sites[0].Start != want):
			t.Errorf("near %d: %v, want line %d", near, err, want)
		}
	}
}

// TestMissingSemicolon checks that a block of five lines is found if the quoted text lacks the semicolon of an inner
// line (F3).
func TestMissingSemicolon(t *testing.T) {
	file := "func calc() {\n\talpha := first(1);\n\tbeta := second(2);\n\tgamma := third(3);\n\treturn alpha + beta;\n}\n"
	old := "func calc() {\n\talpha := first(1);\n\tbeta := second(2)\n\tgamma := third(3);\n\treturn alpha + beta;"
	c, err := strategy.Apply([]byte(file), strategy.Edit{Old: old, New: strings.Replace(old, "first(1)", "first(9)", 1), File: "f.go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(file, "first(1)", "first(9)", 1); c.Strategy != "block-anchor" || string(c.Text) != want {
		t.Errorf("%s: %q", c.Strategy, c.Text)
	}
	// If two blocks are equally similar, the edit is refused.
	if _, err := strategy.Apply([]byte(file+file), strategy.Edit{Old: old, New: "x", File: "f.go"}, nil); err == nil {
		t.Error("an ambiguous block was replaced")
	}
}
