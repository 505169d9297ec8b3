package strategy_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/plugins/edit/strategy"
)

// FuzzApply checks that no edit panics. It also checks that the lines outside of the changed places keep all their
// bytes.
func FuzzApply(f *testing.F) {
	f.Add("a\r\nb\nc", "b\n", "x\ny\n", false)
	f.Add("\tif a {\n\t\tb()\n\t}\n", "if a {\n    b()\n}", "if a {\n    c()\n}", false)
	f.Add("  a()\nb\n\ta()\n", "a()\n", "c()\nd()\n", true)
	f.Add("say “hi” – it’s\n", "say \"hi\" - it's", "say \"ho\" - it's", false)
	f.Add("a(\"x\")\nb\n", `a(\"x\")\nb`, `a(\"y\")\nb`, false)
	f.Add("one\n\ntwo\nthree\n", "\none\ntwo\n\nthree\n\n", "one\n2\n", false)
	f.Add("func main() {\n\treceive(message)\n}\n", "func main() {\n\treceeive(message)\n}\n", "x", false)
	f.Add("a\rb\rc", "a\nb", "x\n", false)
	f.Fuzz(func(t *testing.T, text, old, theirs string, all bool) {
		if !utf8.ValidString(text) || !utf8.ValidString(old) || !utf8.ValidString(theirs) {
			return // the plugin refuses texts that are not UTF-8
		}
		got, err := strategy.Apply([]byte(text), strategy.Edit{Old: old, New: theirs, All: all}, nil)
		if err != nil {
			return
		}
		untouched(t, []byte(text), got)
	})
}

// untouched checks that the lines outside of the changed places are unchanged.
func untouched(t *testing.T, text []byte, c *strategy.Change) {
	t.Helper()
	sep := []byte("\n")
	if !bytes.Contains(text, sep) && bytes.Contains(text, []byte("\r")) {
		return // a different line ending changes the meaning of the line numbers
	}
	before, after := bytes.SplitAfter(text, sep), bytes.SplitAfter(c.Text, sep)
	added, next := 0, 0
	for i, line := range after {
		for next < len(c.Sites) && c.Sites[next].End < i+1 {
			added += c.Sites[next].Added
			next++
		}
		if next < len(c.Sites) && c.Sites[next].Start <= i+1 {
			continue
		}
		was := i - added
		if last := i >= len(after)-2; last && (was >= len(before) || len(line) == 0) {
			continue // the newline at the end of the file is not part of the edit
		}
		if was < 0 || was >= len(before) {
			t.Fatalf("line %d of %q comes from nowhere (%q, %+v)", i+1, c.Text, text, c.Sites)
		}
		if !bytes.Equal(before[was], line) && strings.TrimRight(string(before[was]), "\r\n") != string(line) {
			t.Fatalf("line %d was %q and is %q (%q became %q, %+v)", i+1, before[was], line, text, c.Text, c.Sites)
		}
	}
}

// FuzzSplice checks edits in which the old text differs from the file only in blanks. The file's bytes must be kept
// in lines that the edit does not change.
func FuzzSplice(f *testing.F) {
	f.Add("alpha\nbeta\ngamma\ndelta\n", uint64(0x0123456789abcdef), uint8(1))
	f.Add("\tif x {\r\n\t\ty()\r\n\t}\r\n", uint64(7), uint8(2))
	f.Add("  a\n\n    b\n  c\n", uint64(0xfedcba), uint8(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64, change uint8) {
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\f\v") && !strings.Contains(text, "\r\n") || strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") {
			return
		}
		ours := strings.SplitAfter(text, "\n")
		var old, theirs []string
		kept := make(map[string]int)
		for i, line := range ours {
			body := strings.TrimRight(line, "\r\n")
			pad := strings.Repeat(" ", int(seed>>(uint(i)%60)&3))
			was := body + pad
			old = append(old, was)
			if i%(int(change)+1) == 0 && strings.TrimSpace(body) != "" {
				theirs = append(theirs, body+" changed")
				continue
			}
			theirs = append(theirs, was)
			kept[line]++
		}
		got, err := strategy.Apply([]byte(text), strategy.Edit{Old: strings.Join(old, "\n"), New: strings.Join(theirs, "\n")}, nil)
		if err != nil {
			return
		}
		for _, line := range strings.SplitAfter(string(got.Text), "\n") {
			kept[line]--
		}
		for line, missing := range kept {
			if missing > 0 && line != "" && got.Strategy == strategy.LineTrimmed {
				t.Fatalf("%q lost the line %q: %q", text, line, got.Text)
			}
		}
	})
}
