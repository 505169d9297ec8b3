package shellscript_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/shellscript"
)

// TestLimits checks that the analysis reports a doubt when it reaches one of its limits.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 8000)
	for text, want := range map[string]string{
		`x='eval "$x"'; eval "$x"`:                                      "scripts are nested more than 16 levels deep",
		strings.Repeat("ls && ", 20_001) + "ls":                         "joins more than 20000 commands",
		"x=" + long + "; echo" + strings.Repeat(` "$x"`, 5000) + "; ls": "too large to analyze",
		strings.Repeat("nice ", 2100) + "ls":                            "nested too deep",
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w"})
		if want != "" && !slices.ContainsFunc(a.Doubts, func(d string) bool { return strings.Contains(d, want) }) {
			t.Errorf("%.60s: %.200q, wanted %q", text, a.Doubts, want)
		}
	}
	// A panic during the analysis leads to a doubt.
	a := shellscript.Analyze("f() { ls; }; f", shellscript.Options{Subset: true, Listed: func(string) bool { panic("a mistake") }})
	if !slices.ContainsFunc(a.Doubts, func(d string) bool { return strings.Contains(d, "cannot be analyzed: a mistake") }) {
		t.Errorf("a panic: %q", a.Doubts)
	}
}

// TestLimitsOfWords checks that too many words and too long words become unknown.
func TestLimitsOfWords(t *testing.T) {
	for text, words := range map[string]int{
		"rm {1..300}": 2, "rm {1..200}": 201, "rm " + strings.Repeat("{a,b}", 9): 2, "rm " + strings.Repeat("{a,b}", 7): 129, "rm " + strings.Repeat("{", 300): 2,
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w"})
		if len(a.Commands) != 1 || len(a.Commands[0].Words) != words {
			t.Errorf("%.20s: %d words, wanted %d", text, len(a.Commands[0].Words), words)
		}
	}
	a := shellscript.Analyze("x="+strings.Repeat("x", 8000)+`; rm "$x" $x$x; x=$x$x`, shellscript.Options{Dir: "/w"})
	if len(a.Commands) != 1 || len(a.Commands[0].Words) != 3 || !a.Commands[0].Words[1].Known() || a.Commands[0].Words[2].Known() {
		t.Errorf("a long word: %v", fmt.Sprint(a.Commands)[:100])
	}
	// A function that calls itself is analyzed once.
	if a := shellscript.Analyze("f() { ls; f; }; f", shellscript.Options{Dir: "/w"}); len(a.Commands) > 8 {
		t.Errorf("a recursive function has %d commands", len(a.Commands))
	}
}

// TestExpressions compiles all regular expressions, because an invalid one would be noticed only at its first use.
func TestExpressions(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("= lazily\\(`([^`]*)`\\)").FindAllSubmatch(text, -1) {
			if _, err := regexp.Compile(string(m[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("only %d expressions were found", n)
	}
}
