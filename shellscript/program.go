package shellscript

import (
	"path"
	"slices"
	"strings"
)

// AnalyzeProcess returns the commands that a program carries out in its own process. The first command is the program
// itself. The arguments are the words and the working directory of the running program. Commands that the program
// starts as new processes are not included, because they are judged separately.
func AnalyzeProcess(words []string, o Options) (out []Command, doubts []string) {
	w := walker{out: new(Analysis), home: o.Home, started: true, gitSettings: o.GitSettings}
	all := make([]Word, len(words))
	for i, text := range words {
		all[i] = Word{Text: text}
	}
	first := Command{Words: all, Dir: o.Dir, Wrapper: IsWrapper(words[0])}
	name := first.Name()
	applet, chosen := "", false
	if name == "coreutils" && len(words) > 1 {
		applet, chosen = strings.CutPrefix(words[1], "--coreutils-prog=")
	}
	sub, helper := strings.CutPrefix(name, "git-")
	switch {
	case chosen:
		all = slices.Concat([]Word{{Text: applet}}, all[2:])
	case helper: // the program git-clean is the command "git clean"
		all = slices.Concat([]Word{{Text: "git"}, {Text: sub}}, all[1:])
	case !slices.Contains(applets, name) && name != "git" && name != "find":
		return []Command{first}, nil
	}
	defer func() {
		if p := recover(); p != nil { // a panic of the analysis must not end the process
			out, doubts = []Command{first}, []string{"the arguments of the program cannot be analyzed"}
		}
	}()
	w.tainted = make(map[string]bool)
	w.run(all, &scope{dir: o.Dir, vars: make(map[string]string)}, feed{known: true})
	if chosen || helper {
		w.out.Commands[0].Wrapper = w.out.Commands[0].Wrapper || helper // lists of programs count the separate entry instead
		return append([]Command{first}, w.out.Commands...), w.out.Doubts
	}
	return w.out.Commands, w.out.Doubts
}

// applets lists programs that run another program in their own process. The first operand is the name of the other
// program.
var applets = []string{"busybox", "toybox", "coreutils"}

// starters lists programs whose only effect is that they start other programs. It omits programs that can change how
// the other program runs, such as strace and fakeroot.
var starters = slices.Concat(applets, []string{
	"sh", "bash", "dash", "ash", "env", "nice", "ionice", "nohup", "setsid", "time", "timeout", "gtimeout", "xargs",
})

// IsWrapper reports whether the only effect of a program is that it starts another program. Examples are shells and
// "env".
func IsWrapper(program string) bool { return slices.Contains(starters, path.Base(program)) }

// Wrappers returns the names of the programs for which [IsWrapper] is true.
func Wrappers() []string { return slices.Clone(starters) }

// loader matches the names of dynamic linkers, which can also be started as programs.
var loader = lazily(`^(ld|ld32|ld64|ld-.+|libc|libc\.musl-.+)\.so(\.[0-9.]+)?$`)

// IsLoader reports whether a program is a dynamic linker, which runs the program in its arguments.
func IsLoader(program string) bool { return loader().MatchString(path.Base(program)) }

// loaderOptions lists the options of dynamic linkers that take an argument. silent lists the options that prevent a
// dynamic linker from running a program.
var (
	loaderOptions = []string{"--library-path", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask", "--inhibit-rpath",
		"--audit", "--preload", "--argv0"}
	silent = []string{"--help", "--version", "--list-tunables", "--list-diagnostics", "--verify", "--list"}
)

// LoaderCommand returns the words of the program that a dynamic linker runs. The argument "words" is the command line
// of the dynamic linker. The result is nil if the command runs no program.
func LoaderCommand(words []string) []string {
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
