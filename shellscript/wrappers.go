package shellscript

import (
	"slices"
	"strings"
)

// wrapper describes a program that runs the command in its arguments.
type wrapper struct {
	// The fields "short" and "long" list the options that take an argument.
	short string
	long  []string
	// operands is the number of operands that precede the command.
	operands int
	// assigns reports whether words of the form NAME=VALUE can precede the command.
	assigns bool
	// shell reports whether the program joins the words and executes the result with a shell.
	shell bool
	// shellFlag is an option that takes a script as its argument. The program executes the script with a shell.
	shellFlag string
	// visible reports whether the program has effects of its own. The analysis then lists it as a separate
	// command.
	visible bool
	// more reports whether the program adds arguments that it reads from its input, as xargs does.
	more bool
	// remote reports whether the program runs the command on another machine.
	remote bool
	// not lists the options with which the program runs no command.
	not string
}

var wrappers = map[string]wrapper{
	"aa-exec":          {short: "pn", long: []string{"profile", "namespace"}, visible: true},
	"aoss":             {visible: true},
	"builtin":          {},
	"busybox":          {},
	"caffeinate":       {short: "tw"},
	"catchsegv":        {visible: true},
	"choom":            {short: "np", long: []string{"adjust", "pid"}, visible: true},
	"chroot":           {operands: 1, long: []string{"userspec", "groups"}, visible: true},
	"chrt":             {operands: 1, short: "TPD"},
	"command":          {not: "vV"},
	"coproc":           {},
	"coreutils":        {},
	"cpulimit":         {short: "lpePc", long: []string{"limit", "pid", "exe", "path", "cpu"}, visible: true},
	"daemonize":        {short: "acelopuE"},
	"dbus-run-session": {},
	"distcc":           {visible: true},
	"doas":             {short: "uCa", visible: true},
	"dumb-init":        {short: "r", long: []string{"rewrite"}, visible: true},
	"eatmydata":        {visible: true},
	"entr":             {visible: true},
	"envdir":           {operands: 1, visible: true},
	"envuidgid":        {operands: 1, visible: true},
	"exec":             {short: "a"},
	"fakeroot":         {short: "lsib"},
	"faketime":         {operands: 1, visible: true},
	"firejail":         {visible: true},
	"flock":            {operands: 1, short: "wEc", shellFlag: "c", long: []string{"timeout", "wait", "conflict-exit-code"}},
	"gosu":             {operands: 1, visible: true},
	"grc":              {short: "c", long: []string{"config"}, visible: true},
	"gtimeout":         {operands: 1, short: "ks", long: []string{"kill-after", "signal"}},
	"i386":             {visible: true},
	"ionice":           {short: "cnpPu", long: []string{"class", "classdata"}},
	"linux32":          {},
	"linux64":          {},
	"logsave":          {operands: 1, visible: true},
	"ltrace":           {short: "aeDlnopsuAFSwx"},
	"multitime":        {short: "fIinorsl", visible: true},
	"nice":             {short: "n", long: []string{"adjustment"}},
	"nocache":          {visible: true},
	"nocorrect":        {},
	"noglob":           {},
	"nohup":            {},
	"nsenter":          {short: "tSGF", long: []string{"target", "setuid", "setgid"}, visible: true},
	"numactl":          {short: "iNCmplw"},
	"openvt":           {short: "c", long: []string{"console"}, visible: true},
	"parallel":         {short: "jNnLlIaSdPE", long: []string{"jobs", "max-args", "arg-file", "delimiter", "joblog", "results", "timeout", "retries", "sshlogin", "tmpdir"}, shell: true, more: true},
	"pkexec":           {long: []string{"user"}, visible: true},
	"prlimit":          {short: "o", long: []string{"output"}, visible: true},
	"proxychains":      {short: "f"},
	"proxychains4":     {short: "f"},
	"rlwrap":           {short: "abcCfHlLmMnoOpPqsSt"},
	"rsh":              {operands: 1, short: "l", shell: true, remote: true, visible: true},
	"runuser":          {short: "ugGcsw", long: []string{"user", "group", "command", "shell"}, shellFlag: "c", visible: true},
	"script":           {short: "cEIOBmoT", long: []string{"command"}, shellFlag: "c"},
	"setarch":          {},
	"setlock":          {operands: 1, visible: true},
	"setpriv":          {long: []string{"reuid", "regid", "groups", "inh-caps", "ambient-caps", "bounding-set", "securebits", "pdeathsig"}},
	"setsid":           {},
	"setuidgid":        {operands: 1, visible: true},
	"softlimit":        {short: "amcdflrpost"},
	"ssh":              {operands: 1, short: "BbcDEeFIiJLlmOopQRSWw", shell: true, remote: true, visible: true},
	"ssh-agent":        {short: "aEtPO", visible: true},
	"sshpass":          {short: "pfdP", visible: true},
	"stdbuf":           {short: "ioe", long: []string{"input", "output", "error"}},
	"strace":           {short: "abeEIoOpPsSuUX"},
	"su":               {operands: 1, short: "cgGsw", long: []string{"command", "group", "shell"}, shellFlag: "c", visible: true},
	"su-exec":          {operands: 1, visible: true},
	"sudo":             {short: "aCcDghprRtTuU", long: []string{"user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from", "command-timeout", "other-user"}, assigns: true, visible: true},
	"systemd-inhibit":  {long: []string{"what", "who", "why", "mode"}, visible: true},
	"systemd-run":      {short: "upHMtE", long: []string{"unit", "property", "description", "slice", "uid", "gid", "nice", "setenv", "working-directory"}, visible: true},
	"taskset":          {operands: 1},
	"time":             {short: "fo", long: []string{"format", "output"}},
	"timeout":          {operands: 1, short: "ks", long: []string{"kill-after", "signal"}},
	"tini":             {short: "pe", visible: true},
	"torify":           {visible: true},
	"torsocks":         {short: "aPup", long: []string{"address", "port", "user", "pass"}, visible: true},
	"toybox":           {},
	"tsocks":           {visible: true},
	"uname26":          {visible: true},
	"unbuffer":         {},
	"unshare":          {short: "wRSG", long: []string{"root", "wd", "setuid", "setgid", "map-user", "map-group"}, visible: true},
	"valgrind":         {visible: true},
	"watch":            {short: "nqs", long: []string{"interval"}, shell: true},
	"x86_64":           {visible: true},
	"xargs":            {short: "adEIiLlnPsS", long: []string{"arg-file", "delimiter", "eof", "replace", "max-lines", "max-args", "max-procs", "max-chars"}, more: true},
	"xvfb-run":         {short: "enfpsw"},
}

// shells lists the shells. A shell reads its script from an option, a file or standard input.
var shells = []string{"sh", "bash", "zsh", "dash", "ksh", "ash", "mksh", "yash", "rbash", "fish", "csh", "tcsh", "posh",
	"sash", "lksh", "oksh", "pdksh", "rksh", "rzsh"}

// unwrap analyzes the command that a wrapper runs. It reports whether the wrapper has no effect of its own.
func (w *walker) unwrap(name string, words []Word, sc *scope, in feed) bool {
	args := words[1:]
	switch {
	case slices.Contains(shells, name):
		return w.shell(words, sc, in)
	case name == "eval":
		w.joined(args, sc, in)
		return true
	case name == "." || name == "source":
		return w.sourced(args, sc, in)
	case name == "env":
		return w.env(args, sc, in)
	case name == "find" || name == "fd" || name == "fdfind":
		w.find(name, args, sc)
		return false
	case name == "git":
		return w.git(args, sc)
	case strings.HasPrefix(name, "git-") && slices.Contains(gitCommands, name[len("git-"):]):
		w.gitHelper(name, args, sc, in)
		return false
	case IsLoader(name):
		if rest := LoaderCommand(texts(words)); rest != nil {
			w.run(words[len(words)-len(rest):], sc.copy(), in)
		}
		return false // return false, because options of the loader can load further code
	}
	spec, ok := wrappers[name]
	if !ok {
		return false
	}
	rest, text, runs := w.options(spec, args)
	if text != nil {
		w.text(text.Text, sc.copy(), in)
	}
	if !runs || len(rest) == 0 {
		return text != nil && !spec.visible
	}
	if spec.more {
		rest = w.more(name, rest, in)
	}
	at := len(w.out.Commands)
	switch {
	case spec.shell && (len(rest) == 1 || name != "watch" || !slices.Contains(texts(args), "-x")):
		w.joined(rest, sc.copy(), in)
	default:
		inner := sc
		if name != "exec" && name != "command" && name != "builtin" {
			inner = sc.copy()
		}
		w.run(rest, inner, in)
	}
	if spec.remote {
		for i := at; i < len(w.out.Commands); i++ {
			w.out.Commands[i].Remote = true
		}
	}
	return !spec.visible
}

// options returns the words of a wrapper after its options and operands. The result "text" is the script that the
// wrapper executes with a shell. The result "runs" reports whether the wrapper runs a command.
func (w *walker) options(spec wrapper, args []Word) (rest []Word, text *Word, runs bool) {
	operands := spec.operands
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		switch {
		case a == "-" && spec.shellFlag != "": // in "su -", the dash means a login shell
		case a == "--":
			if operands >= len(args)-i-1 {
				return nil, text, true
			}
			return args[i+1+operands:], text, true
		case strings.HasPrefix(a, "--"):
			name, _, valued := strings.Cut(a[2:], "=")
			takes := !valued && slices.ContainsFunc(spec.long, func(l string) bool { return Abbreviates(name, l) })
			if spec.shellFlag != "" && Abbreviates(name, "command") {
				switch _, v, _ := strings.Cut(a, "="); {
				case valued:
					text = &Word{Text: v}
				case i+1 < len(args):
					text = &args[i+1]
				}
			}
			if takes {
				i++
			}
		case len(a) > 1 && a[0] == '-':
			for k := 1; k < len(a); k++ {
				if strings.IndexByte(spec.not, a[k]) >= 0 {
					return nil, nil, false
				}
				if strings.IndexByte(spec.short, a[k]) < 0 {
					continue
				}
				value := Word{Text: a[k+1:]}
				if k == len(a)-1 && i+1 < len(args) {
					i++
					value = args[i]
				}
				if spec.shellFlag != "" && a[k] == spec.shellFlag[0] {
					text = &value
				}
				break
			}
		case spec.assigns && isAssignment(a): // an assignment before the command
		case operands > 0:
			operands--
		default:
			return args[i:], text, true
		}
	}
	return nil, text, true
}

// Abbreviates reports whether a word is an abbreviation of a long option's name.
func Abbreviates(word, name string) bool { return word != "" && strings.HasPrefix(name, word) }

func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// joined analyzes words that a program joins to one script and executes with a shell.
func (w *walker) joined(words []Word, sc *scope, in feed) {
	if len(words) > 0 && words[0].Text == "--" {
		words = words[1:]
	}
	w.text(strings.Join(texts(words), " "), sc, in)
}

func texts(words []Word) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = word.Text
	}
	return out
}

// more adds the unknown arguments that programs such as "xargs" read, for example from standard input.
func (w *walker) more(name string, rest []Word, in feed) []Word {
	for i, word := range rest { // the arguments of "parallel" follow the word ":::"
		if name == "parallel" && strings.HasPrefix(word.Text, ":::") {
			return append(slices.Clone(rest[:i]), rest[i+1:]...)
		}
	}
	if in.known {
		out := slices.Clone(rest)
		for _, f := range strings.Fields(in.text) {
			out = append(out, Word{Text: f})
		}
		return out
	}
	return append(slices.Clone(rest), Word{Text: Unknown, Split: true})
}

// env analyzes the command that env runs.
func (w *walker) env(args []Word, sc *scope, in feed) bool {
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		switch {
		case a == "-" || a == "--":
		case strings.HasPrefix(a, "--"):
			name, value, valued := strings.Cut(a[2:], "=")
			if !valued && i+1 < len(args) &&
				(Abbreviates(name, "split-string") || Abbreviates(name, "unset") || Abbreviates(name, "chdir")) {
				i++
				value = args[i].Text
			}
			if Abbreviates(name, "split-string") {
				w.split(value, args[i+1:], sc, in)
				return true
			}
		case len(a) > 1 && a[0] == '-':
			k := strings.IndexAny(a, "SuC")
			if k < 0 {
				continue
			}
			value := a[k+1:]
			if value == "" && i+1 < len(args) {
				i++
				value = args[i].Text
			}
			if a[k] == 'S' {
				w.split(value, args[i+1:], sc, in)
				return true
			}
		case isAssignment(a): // an assignment before the command
			w.gitSettings = w.gitSettings || IsGitSetting(a)
		default:
			w.run(args[i:], sc.copy(), in)
			return true
		}
	}
	return true
}

// split analyzes a text that "env -S" splits into words.
func (w *walker) split(text string, rest []Word, sc *scope, in feed) {
	w.text(text+" "+strings.Join(quoted(rest), " "), sc.copy(), in)
}

func quoted(words []Word) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = "'" + strings.ReplaceAll(word.Text, "'", `'\''`) + "'" // quote every word, also a word without special characters
	}
	return out
}
