//go:build oracle && !race

package pattern

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/internal/peer"
)

// corpus contains lines that reveal most differences between patterns.
var corpus = strings.Join([]string{
	"func main() {", "func(", "interface{}", "foo", "Foo bar", "foobar baz", "a|b", "a\\b", "x+y", "(a)(b)", "aa", "aaa", "", " ", "\t",
	"caf\u00e9", "na\u00efve", "\u00c9cole", "\u03b1\u03b2\u03b3", "\u0391\u0392", "\u65e5\u672c\u8a9e", "\u0661\u0662", "\u00a0", "\u2003x", "K", "\u212a", "\u017f", "s S", "k\u00df",
	"\xff", "a\xffb", "\xc3", "caf\xe9", "\xe2\x82", "x\xe2\x82\xacy", "\xf0\x9f\x98\x80", "\ufffd", "e\u0301", "\u200d", "_x1", "1_000", "a-b", "a.b", "a,b;c",
	"[x]", "{1}a", "*a", "?a", "+a", "a{1", "a{1a}", "^a", "$a", "a^b", "a$b", "a)", "(*b)", "z\\", "tab\there", "cr\r", "cr\rmid", "a  b",
	"0x1F", "3.14", "foo.bar(baz)", "http://x.y/z?q=1", "ABC def", "\u01c5", "\u0130\u0131", "\u0345", "\u1e9e", "\u0660", "\u2160", "\u24d0", "\U0001d7d8", "\U0001e900\U0001e922",
	"word word", "wordy", "under_score", "end", "the end.", "\u4e00\u4e01", "\u0e01\u0e33", "a\u0308", "\x01\x02", "\x7f", "--", "~~", "&&", "#", "# comment",
}, "\n") + "\nlast without a break"

// rustPatterns are compared with ripgrep. The comparison includes lines, columns and errors.
var rustPatterns = []string{
	"", "foo", "Foo", `func\(`, "func(", "interface{}", "interface\\{\\}", "a{,2}", "a{2}", "a{2,}", "a{1,2}b", "a{2,1}", "a{", "a{1", "a{ 2 }", "{2}", "}", "a**", "a+?", "a??b", "(a|b)+", "(?:a)", "(?P<n>a)", "(?<n>a)", "(?<n>a)(?<n>b)", "(?<1>a)", "(?<n", "()", "(|a)b", "a|", "|a", "a||b", "(", ")", "(?", "(?)", "(?i)", "(?i)FOO", "(?i:F)oo", "(?-i)F", "(?i)k", "(?i)S", "(?i)\u00e9", "(?i)\u03b1", "(?i)\u00df", "(?i)[k-l]", "(?i)[^k]", "(?i-u)k", "(?i)\u01c4", "(?z)", "(?ii)", "(?-)", "(?i", "(?i-", "a(?i)*", "(?x)f\\ o", "(?x)[a b]", "(?s).", "(?U)a+", "(?m)^a$", "(?-m)^a", "(?-m:a$)", "(?R)cr$", "(?R)^mid", "(?R).$",
	".", "..", "^.$", "^..$", "^$", "^", "$", "^\\s*$", "\\A.", ".\\z", "\\Afoo", "\\Z", "^a", "a$", "a^b", "a$b", "cr$", "cr\\r$", "\\r", "\\t", "\\n", "foo\\nbar", "[\\n]", "[\\na]", "\\x0a", "\\v|\\f|\\a",
	"\\w", "\\W", "^\\w+$", "^\\W+$", "\\d", "\\D", "^\\d+$", "\\s", "\\S", "^\\s+$", "^\\S+$", "[\\w-]+", "[^\\w]", "[\\W\\d]", "[\\d\\s]", "\\bfoo\\b", "\\bword\\b", "\\bna", "\\Bx", "\\B", "^\\B", "\\b", "ve\\b", "\\b\u00e9", "caf\\b", "\\b\u65e5", "\u8a9e\\b", "\\<foo", "foo\\>", "\\b{start}f", "r\\b{end}", "\\b{start-half}a", "a\\b{end-half}", "\\b{foo}", "\\b{", "\\b{start", "\\b{1}", "(?-u)\\b", "(?-u:\\bfoo\\b)", "(?-u)\\w+", "(?-u)caf\\b", "(?-u)\\W", "(?-u)\\B",
	"[a-c]", "[^a-z]", "[]a]", "[^]a]", "[a-]", "[-a]", "[--a]", "[a--b]", "[a-c&&b-d]", "[a-z--[aeiou]]", "[a-c~~b-d]", "[a[bc]]", "[[:alpha:]]", "[[:^alpha:]]", "[[:alpha]]", "[[:foo:]]", "[:alpha:]", "[a-\\d]", "[\\d-a]", "[z-a]", "[", "[a", "[]", "[^", "[^]", "[\\]]", "[\\b]", "[\\A]", "[&]", "[&&]", "[a&&]", "[a&&b]", "[~]", "[-]", "[a\\-z]", "[\\x41-\\x43]", "[\\u{e9}]", "[\u00e9-\u00ef]", "[^\\x00-\\x7f]", "[\\x{ff}]", "[a-z&&[^aeiou]]", "[\\pL--\\p{Latin}]", "[^\\pL]", "[[a]", "[a]]",
	"\\pL", "\\PL", "\\p{L}", "\\p{Lu}", "\\p{Letter}", "\\p{lowercase_letter}", "\\p{Greek}", "\\p{sc=Greek}", "\\p{Script=Han}", "\\p{gc=Nd}", "\\P{Greek}", "\\p{Alphabetic}", "\\p{alpha}", "\\p{Uppercase}", "\\p{White_Space}", "\\p{Any}", "\\p{ASCII}", "\\p{Cn}", "\\p{Nl}", "\\p{Foo}", "\\p{Emoji}", "\\p{Emoji_Presentation}", "\\P{epres}", "\\p{ExtPict}", "\\p{emod}", "\\p{Emoji_Modifier_Base}", "\\p{Emoji_Component}", "\\p{", "\\p", "\\p{^L}", "\\pZ", "\\pN", "(?i)\\p{Lu}", "(?-u)\\pL", "\\p{Assigned}", "\\p{LC}", "\\p{Lm}",
	"\\", "\\\\", "\\.", "\\-", "\\/", "\\e", "\\q", "\\1", "(a)\\1", "\\0", "\\<", "\\%", "\\ ", "\\\u00e9", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)", "a++", "\\K", "\\G", "\\Q", "\\h", "\\R", "\\X",
	"\\x41", "\\x4", "\\xZZ", "\\x{41}", "\\x{}", "\\x{110000}", "\\x{D800}", "\\u0041", "\\U00000041", "\\u{41}", "\\xff", "\\xFF\\xFE", "(?-u)\\xff", "(?-u:\\xff)b", "(?-u)[\\x80-\\xff]", "(?-u)[^a]", "(?-u).", "(?s-u).", "(?-u)\u00e9", "(?-u)[\u00e9]", "(?-u)caf.", "(?-u:.)\u00e9", "\u00e9", "\ufffd", "\u65e5.", "^.\u672c", "x.y", "\\x00", "[\\x00]", "a\\x00", "[\\x00-\\x02]", "(?-u:\\xc3)", "(?-u)\\xe2\\x82", "(?-u)^\\xe9|\\xe9$", "(?-u)\\x{e9}",
	"a.b", "a.*b", "a.*?b", "^(a|b|c)", "(foo|bar)baz", "foo|bar", "foo(bar)?", "(fo+){2}", "(?:fo+){1,2}b", "[0-9]+\\.[0-9]+", "\\w+\\(\\w*\\)", "https?://[^/]+/", "(a*)*", "(a*)+", "(|a)*", "(a|b)*c|d", "((a{2}){2}){2}", "(a{1000}){1000}{1000}", "\\w{50}", "(\\w+\\s+){2}", "x*", "(?:)", "last", "break$", "^end$", "[^ ]+ [^ ]+$", "--", "~~", "&&", "#", "^#", "\u0345", "(?i)\u0345", "(?i)\u1e9e", "(?i)i", "(?i)\u0130",
}

func TestOracleRustLikeRipgrep(t *testing.T) {
	rg := peer.Ripgrep(t)
	file := writeCorpus(t)
	for _, fold := range []bool{false, true} {
		for _, multi := range []bool{false, true} {
			for _, expr := range rustPatterns {
				args := []string{"--no-config", "-n", "--text", "--no-mmap"}
				if fold {
					args = append(args, "-i")
				}
				if multi {
					args = append(args, "-U")
				}
				if strings.Contains(expr, "x00") {
					args = append(args[:2:2], args[3:]...) // --text allows NUL
				}
				want, status := peer.Run(t, filepath.Dir(file), rg, append(args, "-e", expr, "corpus")...)
				got, err := search(expr, Options{IgnoreCase: fold, Multiline: multi})
				name := fmt.Sprintf("%q fold %v multiline %v", expr, fold, multi)
				compare(t, name, withoutColumns(got), err, want, status)
			}
		}
	}
}

// TestOracleColumnsLikeRipgrep compares columns with ripgrep. It omits patterns for which ripgrep returns no column,
// because ripgrep looks for the column in a different text.
func TestOracleColumnsLikeRipgrep(t *testing.T) {
	rg := peer.Ripgrep(t)
	file := writeCorpus(t)
	for _, expr := range rustPatterns {
		if slices.Contains([]string{"(?-m)^a", "$", "\\A.", "\\Afoo"}, expr) || strings.Contains(expr, "x00") {
			continue
		}
		want, status := peer.Run(t, filepath.Dir(file), rg, "--no-config", "-n", "--column", "--text", "--no-mmap", "-e", expr, "corpus")
		got, err := search(expr, Options{})
		compare(t, fmt.Sprintf("%q", expr), got, err, want, status)
	}
}

// posixPatterns are compared with GNU grep in both dialects.
var posixPatterns = []string{
	"", "foo", "func(", `func\(`, `func\(\)`, "a|b", `a\|b`, "interface{}", `interface\{\}`, "a{1}", `a\{1\}`, "{1}a", `\{1\}a`, "a{1", `a\{1`, "a{1a}", `a\{1a\}`, "a{,2}b", `a\{,2\}b`, "a{2,1}", `a\{2,1\}`, "a{2,}", `a\{2,\}`, "a{,}", "a{40000}", `a\{40000\}`,
	"*a", "^*a", `\(*a\)`, `x\|*a`, "(*b)", "a|*b", "+a", `\+a`, "?a", `\?a`, "a**", "a+*", "a+", `a\+`, "a?b", `a\?b`, "^+", "a{1}{2}", `a\{1\}\{2\}`,
	"^a", "a$", "a^b", "a$b", `a^b\|x`, `\(^a\)`, `\(a$\)`, `x\|^a`, `a$\|x`, "^^a", "a$$", `\(^*a\)`, `x\(^*a\)`, "^", "$", "^$", "x$y",
	"(a)(b)", `\(a\)\(b\)`, "(a", `\(a`, "a)", `a\)`, "()", `\(\)`, "a||b", "a|", `\|a`, "(a|b)*c",
	"[a-c]", "[^a-z]", "[]a]", "[^]a]", "[a-]", "[-a]", "[z-a]", "[a", "[", "[]", `[a\]`, `[\]]`, `[\n]`, "[[:alpha:]]", "[[:digit:][:space:]]", "[^[:alnum:]_]", "[[:foo:]]", "[:alpha:]", "[[.a.]]", "[[.-.]-9]", "[[=a=]]", "[[.hyphen.]]", "[a-[:alpha:]]", "[[:alpha:]-z]", "[[:upper:]]", "[[:lower:]]", "[[:punct:]]", "[[:blank:]]", "[[:xdigit:]]{2}", "[\u00e9]",
	`\w`, `\W`, `\s`, `\S`, `\bfoo\b`, `\Bo`, `\<foo`, `foo\>`, "\\`a", `t\'`, `\d`, `\n`, `\t`, `\.`, `\*`, `\[x\]`, `\{`, `\}`, "{", "}", `\`, `a\`, `\\`, `\/`, `\-`, ".", "^.$", "^..$", "caf.", `a.*b`, "\u00e9", "a\nb", "foo\nbar", "a\n", "x\\y",
}

func TestOraclePosixLikeGrep(t *testing.T) {
	grep := peer.GNUGrep(t)
	file := writeCorpus(t)
	for _, dialect := range []struct {
		name Dialect
		flag string
	}{{Basic, "-G"}, {Extended, "-E"}, {Fixed, "-F"}} {
		for _, fold := range []bool{false, true} {
			for _, expr := range posixPatterns {
				args := []string{dialect.flag, "-n", "-a"}
				if fold {
					args = append(args, "-i")
				}
				want, status := peer.Run(t, filepath.Dir(file), grep, append(args, "-e", expr, "corpus")...)
				got, err := search(expr, Options{Dialect: dialect.name, IgnoreCase: fold})
				name := fmt.Sprintf("%s %q fold %v", dialect.name, expr, fold)
				compare(t, name, withoutColumns(got), err, want, status)
			}
		}
	}
}

func writeCorpus(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "corpus")
	if err := os.WriteFile(file, []byte(corpus), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// search returns the matching lines of the corpus in the format of ripgrep.
func search(expr string, o Options) (string, error) {
	p, err := Compile(expr, o)
	if err != nil {
		return "", err
	}
	m := p.Matcher(t0)
	buf := []byte(corpus)
	var out strings.Builder
	show := func(start, end, column int) {
		line := strings.TrimSuffix(string(buf[start:end]), "\n")
		fmt.Fprintf(&out, "%d:%d:%s\n", strings.Count(corpus[:start], "\n")+1, column+1, line)
	}
	if p.Crossing() {
		return searchAcross(m, buf)
	}
	for pos := 0; pos < len(buf); {
		start, end, ok, err := m.NextLine(buf, pos)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		column, err := m.InLine(buf, start, end)
		if err != nil {
			return "", err
		}
		show(start, end, column)
		pos = end
	}
	return out.String(), nil
}

// searchAcross works like search, for patterns whose matches can span lines. The column of a line is the column of
// its first match. It is 1 for a line in the middle of a match.
func searchAcross(m *Matcher, buf []byte) (string, error) {
	columns := make(map[int]int) // the column of each line, by the start of the line
	var order []int
	for pos := 0; pos < len(buf); {
		start, end, ok, err := m.Find(buf[pos:], 0)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		start, end = start+pos, end+pos
		ls, le := lineAt(buf, start)
		for first := true; ls < len(buf); first = false {
			if _, seen := columns[ls]; !seen {
				columns[ls] = 0
				if first {
					columns[ls] = start - ls
				}
				order = append(order, ls)
			}
			if le >= end {
				break
			}
			ls, le = lineAt(buf, le)
		}
		if pos = end; start == end {
			pos++
		}
	}
	var out strings.Builder
	for _, ls := range order {
		_, le := lineAt(buf, ls)
		fmt.Fprintf(&out, "%d:%d:%s\n", strings.Count(string(buf[:ls]), "\n")+1, columns[ls]+1, strings.TrimSuffix(string(buf[ls:le]), "\n"))
	}
	return out.String(), nil
}

func withoutColumns(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		number, rest, _ := strings.Cut(line, ":")
		_, text, _ := strings.Cut(rest, ":")
		b.WriteString(number + ":" + text)
	}
	return b.String()
}

func compare(t *testing.T, name, got string, err error, want string, status int) {
	t.Helper()
	if (err != nil) != (status == 2) {
		t.Errorf("%s: error %v, want exit status %d", name, err, status)
		return
	}
	if got == want {
		return
	}
	have, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	t.Errorf("%s: only here %.300q, only there %.300q", name, fmt.Sprint(without(have, wanted)), fmt.Sprint(without(wanted, have)))
}

func without(a, b []string) []string {
	in := make(map[string]bool)
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return out
}
