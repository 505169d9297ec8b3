package script

import (
	"path"
	"slices"
)

// Carry returns the commands that a program carries out in its own process, beginning with the program itself. The
// words and the working directory are those of the running program. Commands that the program starts are not included,
// because each of them becomes a program of its own.
func Carry(words []string, o Options) (out []Command, doubts []string) {
	w := walker{out: new(Analysis), home: o.Home, started: true}
	all := make([]Word, len(words))
	for i, text := range words {
		all[i] = Word{Text: text}
	}
	first := Command{Words: all, Dir: o.Dir, Wrapper: Starts(words[0])}
	if name := first.Name(); !slices.Contains(applets, name) && name != "git" && name != "find" {
		return []Command{first}, nil
	}
	defer func() {
		if p := recover(); p != nil { // a panic of the analysis must not end the host
			out, doubts = []Command{first}, []string{"the arguments of the program cannot be analyzed"}
		}
	}()
	w.tainted = make(map[string]bool)
	w.run(all, &scope{dir: o.Dir, vars: make(map[string]string)}, feed{known: true})
	return w.out.Commands, w.out.Doubts
}

// applets lists programs whose first operand is the name of another program, which they run in their own process.
var applets = []string{"busybox", "toybox", "coreutils"}

// Starts reports whether a program does nothing except starting another program: a shell, or a wrapper such as "env".
func Starts(program string) bool {
	name := path.Base(program)
	spec, ok := wrappers[name]
	return ok && !spec.visible || name == "env" || slices.Contains(shells, name)
}

// Starters returns the names of the programs that do nothing except starting another program.
func Starters() []string {
	out := append(slices.Clone(shells), "env")
	for name := range wrappers {
		if Starts(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
