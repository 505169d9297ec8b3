package shellscript

import (
	"slices"
	"strings"
)

// shell analyzes a command that starts a shell.
func (w *walker) shell(words []Word, sc *scope, in feed) bool {
	for i := 1; i < len(words); i++ {
		a := words[i].Text
		switch {
		case a == "--" || a == "-":
			return w.shellScript(words, i+1, sc, in)
		case !words[i].Known() && words[i].Split:
			w.doubt("the commands that %s runs are unknown", words[0].Text)
			return true
		case strings.HasPrefix(a, "--"):
			if slices.Contains([]string{"--rcfile", "--init-file"}, a) {
				i++
			}
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			if a[0] == '-' && strings.Contains(a, "c") {
				return w.shellCommand(words, i+1, sc, in)
			}
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
				i++
			}
			if a[0] == '-' && strings.Contains(a, "s") {
				return w.shellInput(words[0].Text, sc, in)
			}
		default:
			return w.shellScript(words, i, sc, in)
		}
	}
	return w.shellInput(words[0].Text, sc, in)
}

// shellCommand analyzes the script after the option -c of a shell. Other options can be between -c and the script.
func (w *walker) shellCommand(words []Word, i int, sc *scope, in feed) bool {
	for i < len(words) && len(words[i].Text) > 1 && strings.ContainsRune("-+", rune(words[i].Text[0])) {
		if t := words[i].Text; strings.HasSuffix(t, "o") || strings.HasSuffix(t, "O") {
			i++
		}
		i++
	}
	if i >= len(words) {
		return true
	}
	b := sc.copy()
	if b.args = words[i+1:]; len(b.args) == 0 {
		b.args = []Word{words[0]}
	}
	w.text(words[i].Text, b, in)
	return true
}

// shellScript analyzes a command that runs a script file with a shell.
func (w *walker) shellScript(words []Word, i int, sc *scope, in feed) bool {
	if i >= len(words) || isStdin(words[i].Text) {
		return w.shellInput(words[0].Text, sc, in)
	}
	if !words[i].Known() {
		w.doubt("the commands that %s runs are unknown", words[0].Text)
	} else {
		w.unknown("the commands in a file are not judged: %s", w.shown(words))
	}
	return false
}

func isStdin(p string) bool {
	return slices.Contains([]string{"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"}, p)
}

// shellInput analyzes a shell that reads its script from standard input.
func (w *walker) shellInput(name string, sc *scope, in feed) bool {
	if !in.known && !strings.Contains(in.text, Unknown) { // if the input is a text with unknown parts, the analysis of this text reports the doubt
		w.doubt("%s runs commands that it reads from %s", name, in.from)
	}
	w.text(in.text, sc.copy(), feed{known: true})
	return true
}

// sourced analyzes the file that the builtin "source" executes.
func (w *walker) sourced(args []Word, sc *scope, in feed) bool {
	sc.vars = unknownVars(sc.vars)
	sc.dir = ""
	if len(args) == 0 {
		return false
	}
	switch {
	case isStdin(args[0].Text) && in.known:
		w.text(in.text, sc, feed{known: true})
	case isStdin(args[0].Text), !args[0].Known():
		w.doubt(`the script that the command "source" reads is unknown`)
	default:
		w.unknown("the commands in a file are not judged: %s", args[0].Text)
	}
	return false
}

func unknownVars(vars map[string]string) map[string]string {
	out := make(map[string]string, len(vars))
	for name := range vars {
		out[name] = Unknown
	}
	return out
}
