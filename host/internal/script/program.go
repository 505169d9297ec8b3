package script

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Carry returns the commands that a program carries out in its own process, beginning with the program itself. The
// words and the working directory are those of the running program. Commands that the program starts are not included,
// because each of them becomes a program of its own.
func Carry(words []string, o Options) (out []Command, doubts []string) {
	w := walker{out: new(Analysis), home: o.Home, started: true, gitSettings: o.GitSettings}
	all := make([]Word, len(words))
	for i, text := range words {
		all[i] = Word{Text: text}
	}
	first := Command{Words: all, Dir: o.Dir, Wrapper: Starts(words[0])}
	name := first.Name()
	applet, chosen := "", false
	if name == "coreutils" && len(words) > 1 {
		applet, chosen = strings.CutPrefix(words[1], "--coreutils-prog=")
	}
	sub, helper := strings.CutPrefix(name, "git-")
	switch {
	case chosen:
		all = slices.Concat([]Word{{Text: applet}}, all[2:])
	case helper: // git-clean is git clean
		all = slices.Concat([]Word{{Text: "git"}, {Text: sub}}, all[1:])
	case !slices.Contains(applets, name) && name != "git" && name != "find":
		return []Command{first}, nil
	}
	defer func() {
		if p := recover(); p != nil { // a panic of the analysis must not end the host
			out, doubts = []Command{first}, []string{"the arguments of the program cannot be analyzed"}
		}
	}()
	w.tainted = make(map[string]bool)
	w.run(all, &scope{dir: o.Dir, vars: make(map[string]string)}, feed{known: true})
	if chosen || helper {
		w.out.Commands[0].Wrapper = w.out.Commands[0].Wrapper || helper // the helper is listed by its own name
		return append([]Command{first}, w.out.Commands...), w.out.Doubts
	}
	return w.out.Commands, w.out.Doubts
}

// applets lists programs whose first operand is the name of another program, which they run in their own process.
var applets = []string{"busybox", "toybox", "coreutils"}

// starters lists programs that do nothing except starting other programs. Programs that could change how these run, such
// as strace and fakeroot, are not among them.
var starters = slices.Concat(applets, []string{"sh", "bash", "dash", "ash", "env", "nice", "ionice", "nohup", "setsid", "time", "timeout", "gtimeout", "xargs"})

// Starts reports whether a program does nothing except starting another program: a shell, or a wrapper such as "env".
func Starts(program string) bool { return slices.Contains(starters, path.Base(program)) }

// Starters returns the names of the programs for which [Starts] is true.
func Starters() []string { return slices.Clone(starters) }

// loader matches the names of dynamic linkers, which can also be started as programs.
var loader = regexp.MustCompile(`^(ld|ld32|ld64|ld-.+|libc|libc\.musl-.+)\.so(\.[0-9.]+)?$`)

// IsLoader reports whether a program is a dynamic linker, which runs the program in its arguments.
func IsLoader(program string) bool { return loader.MatchString(path.Base(program)) }

// loaderOptions lists the options of dynamic linkers that take an argument. silent lists those with which a dynamic linker
// runs no program.
var (
	loaderOptions = []string{"--library-path", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask", "--inhibit-rpath", "--audit", "--preload", "--argv0"}
	silent        = []string{"--help", "--version", "--list-tunables", "--list-diagnostics", "--verify", "--list"}
)

// Loaded returns the words of the program that a dynamic linker runs. It is nil if the command runs no program. The first
// word of the argument is the dynamic linker.
func Loaded(words []string) []string {
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--":
			return words[min(i+1, len(words)):]
		case slices.Contains(silent, word):
			return nil
		case slices.Contains(loaderOptions, word):
			i++
		case !strings.HasPrefix(word, "--"):
			return words[i:]
		}
	}
	return nil
}
