package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNested(t *testing.T) {
	r := strings.Repeat
	nest := func(n int, o, c string) string { return r(o, n) + "1" + r(c, n) }
	at := func(pre string, n int, of, post string) string { return pre + r(of, n) + post }
	// each is a function that returns a text with n levels or n elements. A block permits one level less
	// than the maximum.
	for name, c := range map[string]struct {
		each  func(n int) string
		most  int
		json  bool
		alone bool
	}{
		"lists":              {each: func(n int) string { return "locals {\n a = " + nest(n, "[", "]") + "\n}" }, most: 499},
		"lists, CRLF":        {each: func(n int) string { return "locals {\r\n a = " + nest(n, "[\r\n", "\r\n]") + "\r\n}" }, most: 499},
		"parentheses":        {each: func(n int) string { return "a = " + nest(n, "(", ")") }, most: 500},
		"objects":            {each: func(n int) string { return "a = " + nest(n, "{ x = ", "}") }, most: 500},
		"blocks":             {each: func(n int) string { return nest(n, "a {\n", "}\n") }, most: 500},
		"calls":              {each: func(n int) string { return "a = " + nest(n, "upper(", ")") }, most: 500},
		"texts in texts":     {each: func(n int) string { return "a = " + nest(n, `"${`, `}"`) }, most: 250},
		"unclosed":           {each: func(n int) string { return at("a = ", n, "[", "") }, most: 500},
		"closed by others":   {each: func(n int) string { return at("a = ", n, "(]", "") }, most: 500},
		"closed too often":   {each: func(n int) string { return r("}\n", 600) + "a = " + nest(n, "(", ")") }, most: 500},
		"closed further out": {each: func(n int) string { return r("a = [(\n]\n", 600) + "b = " + nest(n, "(", ")") }, most: 500},
		"heredocs":           {each: func(n int) string { return "a = <<E\n${" + nest(n, "(", ")") + "}\nE\n" }, most: 498},
		"operators":          {each: func(n int) string { return at("a = ", n, "1+", "1") }, most: 500},
		"signs":              {each: func(n int) string { return at("a = ", n, "-", "1") }, most: 500},
		"comparisons":        {each: func(n int) string { return at("a = ", n, "1<", "1") }, most: 500},
		"equalities":         {each: func(n int) string { return at("a = ", n, "1==", "1") }, most: 500},
		"conditions":         {each: func(n int) string { return at("a = ", n, "b?1:", "1") }, most: 500},
		"elements":           {each: func(n int) string { return at("a = b", n, "[c]", "") }, most: 500},
		"splats":             {each: func(n int) string { return at("a = b", n, ".*", "") }, most: 500},
		"with lists between": {each: func(n int) string { return at("a = ", n, "[1,1]+", "1") }, most: 250},
		"with objects":       {each: func(n int) string { return at("a = ", n, "{b = 1}+", "1") }, most: 250},
		"with sums in lists": {each: func(n int) string { return at("a = ", n, "[1+1,1]+", "1") }, most: 166},
		"with directives":    {each: func(n int) string { return at("a = ", n, `"%{ if b }%{ endif }"+`, "1") }, most: 125},
		"in lists":           {each: func(n int) string { return at("a = ", n, "-[1,", "") }, most: 250},
		"around groups":      {each: func(n int) string { return "a = " + nest(n, "(", "+1)") }, most: 250},
		"directives":         {each: func(n int) string { return at(`a = "`, n, "%{ if b }", r("%{ endif }", n)+`"`) }, most: 498},
		"directives, values": {each: func(n int) string { return at(`a = "`, n, "%{ if b }${c}", r("%{ endif }", n)+`"`) }, most: 498},
		"directives, lines":  {each: func(n int) string { return at("a = <<E\n", n, "%{\nfor b in c }", r("%{ endfor }", n)+"\nE\n") }, most: 498},
		"for, lines":         {each: func(n int) string { return at("a = {\nfor k, v in m : k => ", n, "1+\n", "1}") }, most: 499},
		"a value":            {each: func(n int) string { return at("", n, "1+\n", "1") }, most: 500, alone: true},

		// Elements of the same list must not count as nested.
		"arguments":   {each: func(n int) string { return "locals {\n" + r(" a = [-1, -1] # (((\n b {}\n", n) + "}" }, most: 2000},
		"comments":    {each: func(n int) string { return "locals {\n" + r(" a = -1 # (((\n", n) + "}" }, most: 2000},
		"elements of": {each: func(n int) string { return "a = [" + r("-1, [\"b\"],\n", n) + "]" }, most: 2000},
		"pairs":       {each: func(n int) string { return "a = {\n" + r("\"b\": -1\n", n) + "}" }, most: 2000},
		"in a text":   {each: func(n int) string { return `a = "` + r("${-b} $${ ((( \\\"", n) + `"` }, most: 2000},
		"alternating": {each: func(n int) string { return "a = [" + r("((((1)))),", n) + "]" }, most: 2000},

		"JSON":                {json: true, each: func(n int) string { return nest(n, "[", "]") }, most: 500},
		"JSON, objects":       {json: true, each: func(n int) string { return nest(n, `{"a":`, "}") }, most: 500},
		"JSON, CRLF":          {json: true, each: func(n int) string { return nest(n, "[\r\n", "]\r\n") }, most: 500},
		"JSON, a quote":       {json: true, each: func(n int) string { return `["\"", ` + nest(n, "[", "]") + "]" }, most: 499},
		"JSON, a backslash":   {json: true, each: func(n int) string { return `["\\", ` + nest(n, "[", "]") + "]" }, most: 499},
		"JSON, closed":        {json: true, each: func(n int) string { return r("]", 600) + nest(n, "[", "]") }, most: 500},
		"JSON, a line in it":  {json: true, each: func(n int) string { return "[\"a\n" + at("", n, "[", "\"") }, most: 499},
		"JSON, expressions":   {json: true, each: func(n int) string { return `{"a": "${` + nest(n, "(", ")") + `}"}` }, most: 499},
		"JSON, escaped":       {json: true, each: func(n int) string { return `{"a": "\u0024{` + nest(n, `\u0028`, ")") + `}"}` }, most: 499},
		"JSON, names":         {json: true, each: func(n int) string { return `{"${` + nest(n, "(", ")") + `}": 1}` }, most: 499},
		"JSON, texts in it":   {json: true, each: func(n int) string { return `{"a": "` + nest(n, `${\"`, `\"}`) + `"}` }, most: 250},
		"JSON, side by side":  {json: true, each: func(n int) string { return "[" + r(`[], {}, "[", "${-1}",`, n) + "1]" }, most: 2000},
		"JSON, within quotes": {json: true, each: func(n int) string { return `["` + r(`[\"`, n) + `"]` }, most: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			nested := nestedHCL
			switch {
			case c.json:
				nested = nestedJSON
			case c.alone:
				nested = nestedExpression
			}
			if at := nested([]byte(c.each(c.most)), "x"); at != nil {
				t.Errorf("%d are refused, at %v", c.most, at)
			}
			if c.most < 2000 && nested([]byte(c.each(c.most+1)), "x") == nil {
				t.Errorf("%d are not refused", c.most+1)
			}
		})
	}
}

// TestUnclosedJSON checks that a string without a closing quote ends at the end of the text.
func TestUnclosedJSON(t *testing.T) {
	for _, src := range []string{`"`, `"\`, `"\"`, `["a`, "\"\n", "\"a\n\"", `"${((`} {
		if at := nestedJSON([]byte(src), "x"); at != nil {
			t.Errorf("%q is too deep at %v", src, at)
		}
	}
}

func TestReadSource(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.hcl")
	for size, want := range map[int]string{0: "", maxSource: "", maxSource + 1: "it is larger than 1 MiB"} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readSource(name)
		if want == "" && (err != nil || len(got) != size) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("of %d bytes: %d, %v", size, len(got), err)
		}
	}
	for name, want := range map[string]string{"/dev/zero": "it is not a regular file", t.TempDir(): "it is not a regular file", name + "x": "no such file or directory"} {
		if _, err := readSource(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestParseNested checks that Parse limits the nesting depth.
func TestParseNested(t *testing.T) {
	if _, err := Parse([]byte("locals {\n a = "+strings.Repeat("[", 600)), "x", Environment{}); err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Error(err)
	}
}
