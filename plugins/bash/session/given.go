package session

import (
	"slices"
	"strings"
)

// differing compares the variables of the snapshot with a new shell, whose environment is env. It returns the
// variables to unset and the declarations to run in the new shell. Most variables are already correct. Skipping them
// saves a quarter of the shell's start time.
func (n *Snapshot) differing(env map[string]string) (unset []string, declarations string) {
	given := make(map[string]bool)
	var w strings.Builder
	for line := range strings.Lines(dropPrivate(n.Variables)) {
		// A line inside a multi-line value cannot match, because the unescaped quotes would end the value.
		name, value, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "declare -x "), "\n"), "=")
		was, has := env[name]
		if ok && has && value == `"`+was+`"` && literal(was) && !special(name) {
			given[name] = true
		} else if !shells(line) {
			w.WriteString(line)
		}
	}
	for _, name := range sorted(env) {
		if !given[name] {
			unset = append(unset, name)
		}
	}
	for _, name := range []string{"IFS", "PATH", "TERM", "SHELL", "OLDPWD", "OPTERR", "PS4"} {
		if _, has := env[name]; !has {
			unset = append(unset, name)
		}
	}
	return unset, w.String()
}

// private reports whether the plugin sets the variable anew for each call.
func private(name string) bool {
	return strings.HasPrefix(name, "__toolhost_") || slices.Contains(ofACall, name)
}

// dropPrivate removes the declarations of private variables. A state contains the declaration of a private variable
// only if the session made the variable read-only. If the declaration stayed, the next shells could not set the
// variable.
func dropPrivate(declarations string) string {
	return dropDeclarations(declarations, func(_, name string) bool { return private(name) })
}

// dropDeclarations removes declarations from the output of declare -p. The function "drop" gets the flags and the name
// of a variable.
func dropDeclarations(declarations string, drop func(flags, name string) bool) string {
	var kept strings.Builder
	for rest := declarations; rest != ""; {
		var one string
		one, rest = cutDeclaration(rest)
		flags, name, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(one, "\n"), "declare -"), " ")
		name, _, _ = strings.Cut(name, "=")
		if !drop(flags, name) {
			kept.WriteString(one)
		}
	}
	return kept.String()
}

// cutDeclaration splits the output of declare -p after its first declaration. A quoted value can contain line feeds.
func cutDeclaration(s string) (first, rest string) {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '\n':
			return s[:i+1], s[i+1:]
		}
	}
	return s, ""
}

// shells reports whether a line of declare -p declares a variable that the shell maintains itself. Commands
// cannot set such a variable.
func shells(line string) bool {
	_, declared, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " -")
	_, declared, _ = strings.Cut(declared, " ")
	name, value, _ := strings.Cut(declared, "=")
	switch name {
	case "BASHOPTS", "BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "BASH_VERSINFO", "EUID", "PIPESTATUS",
		"PPID", "SHELLOPTS", "UID":
		quotes := strings.Count(value, `"`)
		array := strings.HasPrefix(value, "(") && strings.HasSuffix(value, ")")
		text := strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) && quotes == 2
		return (text || array) && quotes%2 == 0 && !strings.ContainsAny(value, `\$`) // the line is a complete declaration, not part of a longer value
	case "BASH_ALIASES":
		return value == "()"
	}
	return false
}

// literal reports whether declare -p prints a value unchanged between quotes.
func literal(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '$' || c == '\\' || c == '`' {
			return false
		}
	}
	return true
}

// special reports whether a variable needs special treatment: a new shell does not keep its value from the
// environment, or setting the variable has a side effect.
func special(name string) bool {
	switch name {
	case "_", "CHILD_MAX", "COLUMNS", "COPROC", "DIRSTACK", "EUID", "EXECIGNORE", "FUNCNAME", "FUNCNEST", "GLOBIGNORE",
		"GROUPS", "HOSTFILE", "IFS", "IGNOREEOF", "LINENO", "LINES", "MAPFILE", "OLDPWD",
		"PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PS0", "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS",
		"SHELLOPTS", "SHLVL", "SRANDOM", "TERMCAP", "TERMINFO", "TMOUT", "UID",
		"auto_resume", "histchars", "ignoreeof":
		return true
	}
	for _, prefix := range []string{"BASH", "COMP_", "EPOCH", "HIST", "MAIL", "OPT", "PROMPT_", "READLINE_",
		"TEXTDOMAIN"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
