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

// gitOptions lists the global options of git that take an argument.
var gitOptions = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}

// git analyzes the commands that git runs. It also adds the git command without its global options to the analysis. It
// reports whether these options are harmless.
func (w *walker) git(args []Word, sc *scope) bool {
	inner := sc.copy()
	i, harmless := 0, true
	aliases := make(map[string]string)
	for ; i < len(args) && strings.HasPrefix(args[i].Text, "-"); i++ {
		name, value, valued := strings.Cut(args[i].Text, "=")
		if valued && name == "--work-tree" {
			inner.dir = inner.join(Word{Text: value})
		}
		harmless = harmless && slices.Contains([]string{"-C", "-P", "-p", "--no-pager", "--paginate", "--literal-pathspecs", "--no-optional-locks"}, name)
		if valued || !slices.Contains(gitOptions, name) || i+1 == len(args) {
			continue
		}
		i++
		switch name {
		case "-C", "--work-tree":
			inner.dir = inner.join(args[i])
		case "-c":
			key, value, _ := strings.Cut(args[i].Text, "=")
			if alias, ok := strings.CutPrefix(strings.ToLower(key), "alias."); ok {
				aliases[alias] = value
			} else if w.started {
				continue
			} else if strings.HasPrefix(value, "!") || slices.Contains(gitPrograms, path.Base(strings.ReplaceAll(strings.ToLower(key), ".", "/"))) {
				w.text(strings.TrimPrefix(value, "!"), inner.copy(), feed{from: "git"})
			}
		}
	}
	if i >= len(args) {
		return false
	}
	rest := args[i:]
	if value, ok := aliases[rest[0].Text]; ok {
		text := "git " + value
		if shell, ok := strings.CutPrefix(value, "!"); ok {
			text = shell
		}
		if w.started && text == strings.TrimPrefix(value, "!") {
			return false
		}
		w.text(text+" "+strings.Join(quoted(rest[1:]), " "), inner.copy(), feed{from: "git"})
		return false
	}
	if i > 0 {
		w.out.Commands = append(w.out.Commands, Command{Words: slices.Concat([]Word{{Text: "git"}}, rest), Dir: inner.dir})
	}
	switch sub := rest[0].Text; {
	case w.started:
	case len(rest) > 2 && sub == "submodule" && rest[1].Text == "foreach":
		words := rest[2:]
		for len(words) > 0 && strings.HasPrefix(words[0].Text, "-") {
			words = words[1:]
		}
		w.joined(words, inner, feed{from: "git"})
	case len(rest) > 2 && sub == "bisect" && rest[1].Text == "run":
		w.run(rest[2:], inner, feed{from: "git"})
	case sub == "rebase" || sub == "filter-branch" || sub == "difftool":
		for k, a := range rest {
			flag, value, valued := strings.Cut(a.Text, "=")
			if !slices.Contains([]string{"-x", "--exec", "--extcmd"}, flag) && !strings.HasSuffix(flag, "-filter") {
				continue
			}
			if !valued && k+1 < len(rest) {
				value = rest[k+1].Text
			}
			w.text(value, inner.copy(), feed{from: "git"})
		}
	}
	return i > 0 && harmless
}

// gitPrograms lists the last parts of the names of git settings that contain a command.
var gitPrograms = []string{"sshcommand", "editor", "pager", "fsmonitor", "askpass", "external", "cmd", "command", "helper", "textconv", "clean", "smudge", "process", "driver", "program"}
