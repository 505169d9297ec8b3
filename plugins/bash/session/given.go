package session

import (
	"slices"
	"strings"
)

// differing returns what a new shell that is started with an environment has to unset and declare
// to have these variables. Most of them it has as they are to be, by the environment or by itself: those are
// left alone, which takes a quarter off its start.
func (n *Snapshot) differing(env map[string]string) (unset []string, declarations string) {
	given := make(map[string]bool)
	var w strings.Builder
	for line := range strings.Lines(dropPrivate(n.Variables)) {
		// In a value that has line feeds no line is like this: its quotes would end the value.
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

// private reports whether a variable is what a call or its shell sets.
func private(name string) bool {
	return strings.HasPrefix(name, "__toolhost_") || slices.Contains(ofACall, name)
}

// dropPrivate removes the declarations of private variables. Those that a session has made read-only
// are in a state nevertheless, and would keep the next shells from setting them.
func dropPrivate(declarations string) string {
	var kept strings.Builder
	for rest := declarations; rest != ""; {
		var one string
		one, rest = cutDeclaration(rest)
		_, name, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(one, "\n"), "declare -"), " ")
		name, _, _ = strings.Cut(name, "=")
		if !private(name) {
			kept.WriteString(one)
		}
	}
	return kept.String()
}

// cutDeclaration cuts the first line off what declare -p prints, which has line feeds in its quotes.
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

// shells reports whether a line of declare -p is what the shell itself says of its variables, and lets
// nobody set. The status is that of the telling.
func shells(line string) bool {
	_, declared, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " -")
	_, declared, _ = strings.Cut(declared, " ")
	name, value, _ := strings.Cut(declared, "=")
	switch name {
	case "BASHOPTS", "BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "BASH_VERSINFO", "EUID", "PIPESTATUS", "PPID", "SHELLOPTS", "UID":
		quotes := strings.Count(value, `"`)
		array := strings.HasPrefix(value, "(") && strings.HasSuffix(value, ")")
		text := strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) && quotes == 2
		return (text || array) && quotes%2 == 0 && !strings.ContainsAny(value, `\$`) // whole, and not a part of another
	case "BASH_ALIASES":
		return value == "()"
	}
	return false
}

// literal reports whether declare -p writes a value as it is, between quotes.
func literal(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '$' || c == '\\' || c == '`' {
			return false
		}
	}
	return true
}

// special reports whether a variable is one that a shell does not begin with as the environment has
// it, or to set which does something.
func special(name string) bool {
	switch name {
	case "_", "CHILD_MAX", "COLUMNS", "COPROC", "DIRSTACK", "EUID", "EXECIGNORE", "FUNCNAME", "FUNCNEST", "GLOBIGNORE", "GROUPS", "HOSTFILE", "IFS", "IGNOREEOF", "LINENO", "LINES", "MAPFILE", "OLDPWD",
		"PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PS0", "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "TERMCAP", "TERMINFO", "TMOUT", "UID",
		"auto_resume", "histchars", "ignoreeof":
		return true
	}
	for _, prefix := range []string{"BASH", "COMP_", "EPOCH", "HIST", "MAIL", "OPT", "PROMPT_", "READLINE_", "TEXTDOMAIN"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
