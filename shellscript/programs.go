package shellscript

import (
	"path"
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
	starts := findStarts(args)
	for _, action := range findActions(args) {
		tests := narrows(action.tests)
		if action.deletes() && !tests {
			w.run(slices.Concat([]Word{{Text: "rm"}, {Text: "-rf"}}, starts), sc.copy(), feed{known: true})
		}
		if w.started || action.command == nil {
			continue
		}
		var inner []Word
		for _, a := range action.command {
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
	}
}

// findAction is an action of "find" that deletes files or runs a command.
type findAction struct {
	// tests contains the tests before the action, with their values. Tests after the action do not restrict its files.
	tests []findTest
	// command is the command that the action runs. It is nil for -delete.
	command []Word
}

// findTest is a test in an expression of "find", together with its values.
type findTest struct {
	name   string
	values []Word
}

// deletes reports whether the action deletes the found files.
func (a *findAction) deletes() bool {
	return a.command == nil || len(a.command) > 0 && slices.Contains(removing, path.Base(a.command[0].Text))
}

// findValued lists the words in an expression of "find" that take one value.
var findValued = strings.Fields(`-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin
	-mtime -name -newer -path -perm -printf -regex -regextype -samefile -size -type -uid -used -user -wholename -xtype -fprint -fprint0 -fls -files0-from`)

// findActions returns the actions of "find" that delete files or run commands.
func findActions(args []Word) (out []findAction) {
	var tests []findTest
	for i := 0; i < len(args); i++ {
		values := 0
		switch name := args[i].Text; {
		case name == "-delete":
			out = append(out, findAction{tests: slices.Clone(tests)})
			continue
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, name):
			end := i + 1
			for end < len(args) && args[end].Text != ";" && (args[end].Text != "+" || args[end-1].Text != "{}") {
				end++
			}
			out = append(out, findAction{tests: slices.Clone(tests), command: slices.Clip(args[i+1 : end])})
			i = end
			continue
		case name == "-fprintf":
			values = 2
		case slices.Contains(findValued, name), strings.HasPrefix(name, "-newer"):
			values = 1
		}
		next := min(i+values, len(args)-1)
		tests = append(tests, findTest{args[i].Text, args[i+1 : next+1]})
		i = next
	}
	return out
}

// FindDeletion is an action of "find" that deletes files.
type FindDeletion struct {
	// Names contains patterns for the names of the deleted files. Empty reports whether the action deletes only empty
	// files.
	Names []string
	Empty bool
}

// FindDeletions returns the directories in which "find" starts, and the actions that delete files below these
// directories.
func FindDeletions(args []Word) (starts []string, out []FindDeletion) {
	starts = texts(findStarts(args))
	for _, action := range findActions(args) {
		if !action.deletes() {
			continue
		}
		var d FindDeletion
		for _, t := range action.tests {
			d.Empty = d.Empty || t.name == "-empty"
			if (t.name == "-name" || t.name == "-iname") && len(t.values) > 0 {
				d.Names = append(d.Names, t.values[0].Text)
			}
		}
		out = append(out, d)
	}
	return starts, out
}

// findStarts returns the directories in which "find" starts.
func findStarts(args []Word) (starts []Word) {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "-") && !slices.Contains([]string{"-H", "-L", "-P"}, a.Text) || a.Text == "(" ||
			a.Text == "!" {
			break
		}
		if !strings.HasPrefix(a.Text, "-") {
			starts = append(starts, a)
		}
	}
	if slices.ContainsFunc(args[:min(len(args), len(starts)+2)],
		func(a Word) bool { return a.Text == "-L" || a.Text == "-H" }) {
		for i, s := range starts { // with -L or -H, find follows links in its arguments
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

// narrowing lists tests that restrict "find" to few files. removing lists programs that remove files. If find starts
// such a program for each file, all found files are removed.
var (
	narrowing = []string{"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex",
		"-lname", "-ilname", "-samefile", "-inum"}
	removing = []string{"rm", "unlink", "shred", "truncate", "srm", "wipe"}
)

// bracket matches a set of characters in a glob.
var bracket = lazily(`\[[^]]*\]`)

// narrows reports whether the tests of "find" exclude most files. It returns false if the tests contain a
// negation or an alternative, because these can select all files.
func narrows(tests []findTest) (narrow bool) {
	for _, t := range tests {
		switch {
		case slices.Contains([]string{"!", "-not", "-o", "-or", ","}, t.name):
			return false
		case t.name == "-empty":
			narrow = true
		case slices.Contains(narrowing, t.name) && len(t.values) > 0:
			fixed := bracket().ReplaceAllString(t.values[0].Text, "")
			narrow = narrow || strings.ContainsFunc(fixed, func(r rune) bool {
				return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '~' || r == '\x01'
			})
		}
	}
	return narrow
}
