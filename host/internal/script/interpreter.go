package script

import (
	"path"
	"slices"
	"strings"
)

// scriptInterpreters lists programs that run the script in whose first line they are named. Other programs can be named there,
// too, but they do not run the script: "#!/usr/bin/touch" changes a file.
var scriptInterpreters = []string{
	"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "env", "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "tsx", "php", "lua", "luajit", "Rscript", "tclsh", "guile", "awk", "gawk", "mawk", "nawk", "sed", "make", "gmake", "osascript",
}

// Interprets reports whether a program runs scripts that name it in their first line. The name can end in a version.
func Interprets(program string) bool {
	name := strings.TrimRight(path.Base(program), "0123456789.-")
	return slices.Contains(scriptInterpreters, name) || slices.Contains(scriptInterpreters, path.Base(program))
}

// EnvCommand returns the command that the program env executes for a script whose first line is "#!/usr/bin/env …". The
// arguments are those of env. The result is nil for uses of env that set variables or have other options than -S.
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
	if len(words) == 0 || strings.ContainsAny(split, `'"\$#`) || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil
	}
	return slices.Concat(words, args[2:])
}
