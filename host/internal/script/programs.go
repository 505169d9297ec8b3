package script

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// find analyzes the commands that the programs "find" and "fd" run for each file.
func (w *walker) find(name string, args []Word, sc *scope) {
	if name != "find" {
		for i, a := range args {
			if slices.Contains([]string{"-x", "-X", "--exec", "--exec-batch"}, a.Text) {
				w.run(args[i+1:], sc.copy(), feed{known: true})
			}
		}
		return
	}
	starts, tests := findStarts(args), narrows(args)
	for i := 0; i < len(args); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, args[i].Text) {
			if args[i].Text == "-delete" && !tests {
				w.run(slices.Concat([]Word{{Text: "rm"}, {Text: "-rf"}}, starts), sc.copy(), feed{known: true})
			}
			continue
		}
		if !tests && i+1 < len(args) && slices.Contains(removing, path.Base(args[i+1].Text)) {
			w.run(slices.Concat([]Word{{Text: "rm"}, {Text: "-rf"}}, starts), sc.copy(), feed{known: true})
		}
		if w.started {
			continue
		}
		end := i + 1
		for end < len(args) && args[end].Text != ";" && (args[end].Text != "+" || args[end-1].Text != "{}") {
			end++
		}
		var inner []Word
		for _, a := range args[i+1 : end] {
			switch {
			case a.Text == "{}" && !tests:
				inner = append(inner, starts...)
			case strings.Contains(a.Text, "{}"):
				inner = append(inner, Word{Text: strings.ReplaceAll(a.Text, "{}", Unknown)})
			default:
				inner = append(inner, a)
			}
		}
		w.run(inner, sc.copy(), feed{known: true})
		i = end
	}
}

// findStarts returns the directories in which "find" starts.
func findStarts(args []Word) (starts []Word) {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "-") && !slices.Contains([]string{"-H", "-L", "-P"}, a.Text) || a.Text == "(" || a.Text == "!" {
			break
		}
		if !strings.HasPrefix(a.Text, "-") {
			starts = append(starts, a)
		}
	}
	if slices.ContainsFunc(args[:min(len(args), len(starts)+2)], func(a Word) bool { return a.Text == "-L" || a.Text == "-H" }) {
		for i, s := range starts { // find follows the links that it starts at
			if s.Known() && !strings.HasSuffix(s.Text, "/") {
				starts[i].Text += "/"
			}
		}
	}
	if len(starts) == 0 {
		starts = []Word{{Text: "."}}
	}
	return starts
}

// narrowing lists tests of "find" with which it selects few files. removing lists programs that remove the
// files together, although find starts them for each file.
var (
	narrowing = []string{"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname", "-ilname", "-samefile", "-inum"}
	removing  = []string{"rm", "unlink", "shred", "truncate", "srm", "wipe"}
)

// bracket matches a set of characters in a glob.
var bracket = regexp.MustCompile(`\[[^]]*\]`)

// narrows reports whether the tests of "find" exclude most files. Negations and alternatives can select all files, so that
// no test counts beside them.
func narrows(args []Word) (narrow bool) {
	for i, a := range args {
		switch {
		case slices.Contains([]string{"!", "-not", "-o", "-or", ","}, a.Text):
			return false
		case a.Text == "-empty":
			narrow = true
		case slices.Contains(narrowing, a.Text) && i+1 < len(args):
			fixed := bracket.ReplaceAllString(args[i+1].Text, "")
			narrow = narrow || strings.ContainsFunc(fixed, func(r rune) bool {
				return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '~' || r == '\x01'
			})
		}
	}
	return narrow
}
