package shellscript

import (
	"path"
	"slices"
	"strings"
)

// scriptInterpreters lists programs that run a script whose first line names them. A first line can also name a program
// that does not run scripts. For example, "#!/usr/bin/touch" changes a file.
var scriptInterpreters = []string{
	"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "env", "python", "pypy", "perl", "ruby", "node",
	"nodejs", "deno", "bun", "tsx", "php", "lua", "luajit", "Rscript", "tclsh", "guile", "awk", "gawk", "mawk", "nawk", "sed", "make", "gmake", "osascript",
}

// IsInterpreter reports whether a program is an interpreter that runs scripts. The program name can end in a version.
func IsInterpreter(program string) bool {
	name := strings.TrimRight(path.Base(program), "0123456789.-")
	return slices.Contains(scriptInterpreters, name) || slices.Contains(scriptInterpreters, path.Base(program))
}

// EnvCommand returns the command that the program "env" executes for a script whose first line is "#!/usr/bin/env …".
// args contains the arguments of "env". If they set variables or contain an option except -S, the result
// is nil.
func EnvCommand(args []string) []string {
	if len(args) < 3 {
		return nil
	}
	split, ok := strings.CutPrefix(args[1], "-S")
	if !ok {
		if strings.HasPrefix(args[1], "-") || strings.Contains(args[1], "=") {
			return nil
		}
		return args[1:]
	}
	words := strings.Fields(split)
	if len(words) == 0 || strings.ContainsAny(split, `'"\$#`) || strings.HasPrefix(words[0], "-") ||
		strings.Contains(words[0], "=") {
		return nil
	}
	return slices.Concat(words, args[2:])
}
