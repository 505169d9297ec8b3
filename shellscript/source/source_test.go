package source_test

import (
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/shellscript/source"
)

// This example shows where the value of a variable and the argument of a command are.
func ExampleScan() {
	script := `TOKEN="a b" login 'my "secret"'`
	for n := range source.Scan(script) {
		switch n := n.(type) {
		case source.Assignment:
			from, to := n.Values[0].Span(0, len(n.Values[0].Text))
			fmt.Printf("%s is the bytes %d to %d: %s\n", n.Name, from, to, script[from:to])
		case source.Command:
			from, to := n.Words[1].Span(0, len(n.Words[1].Text))
			fmt.Printf("%s has the argument %s, which is the bytes %d to %d\n", n.Words[0].Text, n.Words[1].Text, from, to)
		}
	}
	// Output:
	// login has the argument my "secret", which is the bytes 19 to 30
	// TOKEN is the bytes 7 to 10: a b
}

// shown returns the nodes of a script, each with the parts of the script that its words stand for.
func shown(script string) string {
	list := func(words []source.Word) string {
		var out []string
		for _, w := range words {
			text := strings.ReplaceAll(w.Text, string(rune(source.Hole)), "…")
			if w.Text != "" {
				from, to := w.Span(0, len(w.Text))
				text += "=" + script[from:to]
			}
			out = append(out, text)
		}
		return "[" + strings.Join(out, "|") + "]"
	}
	var out []string
	for n := range source.Scan(script) {
		switch n := n.(type) {
		case source.Assignment:
			out = append(out, n.Name+list(n.Values))
		case source.Command:
			out = append(out, list(n.Words)+list(n.Inputs)+list(n.Writer))
		}
	}
	return strings.Join(out, " ")
}

func TestScan(t *testing.T) {
	for script, want := range map[string]string{
		`a b`:                       "[a=a|b=b][][]",
		`a 'b c'"d" \e`:             `[a=a|b cd=b c'"d|e=\e][][]`,
		`a "\"$x\q"`:                `[a=a|"…\q=\"$x\q][][]`,
		`a $'b'`:                    `[a=a|b=b][][]`,
		`X=1 a`:                     "[a=a][][] X[1=1]",
		`Y=(2 "3")`:                 "Y[2=2|3=3]",
		`export X=1`:                "X[1=1]",
		`f() { a $(b); }`:           "[a=a|…=$(b)][][] [b=b][][]",
		`a | b`:                     "[a=a][][] [b=b][][a=a]",
		`a | b | c`:                 "[a=a][][] [b=b][][a=a] [c=c][][]",
		`a && b`:                    "[a=a][][] [b=b][][]",
		"a <<E <<<'s'\nx\nE\n":      "[a=a][x\n=x\n|s=s][]",
		"a <<-'E'\n\tx\nE\n":        "[a=a][\tx\n=\tx\n][]",
		"> f":                       "",
		"a 'b\nc d\n":               "[a=a|b=b][][] [c=c|d=d][][]",
		"if\nX=1 a (b\n":            "[a=a|b=b][][] X[1=1]",
		strings.Repeat("(", 90_000): "",
	} {
		if got := shown(script); got != want {
			t.Errorf("%.40q:\n got %s\nwant %s", script, got, want)
		}
	}
	for range source.Scan("a; b; 'c") { // ends at once
		break
	}
}
