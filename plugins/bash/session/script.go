package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// optionsKept are the options of set -o that persist between commands. braceexpand is on in a new shell, and the others
// are off.
var optionsKept = []string{"allexport", "braceexpand", "keyword", "noclobber", "noglob", "physical"}

// shoptNotKept matches options that belong to one shell or to debugging, and those that BASH_COMPAT sets.
var shoptNotKept = regexp.MustCompile(`^(extdebug|login_shell|restricted_shell|compat\d+)$`)

// Script returns commands that restore the session's state in a new shell whose environment is base. They run extra
// last, and their status is 0.
func (s *State) Script(base []string, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	if n := s.Snapshot; n != nil {
		// This clears the options that are on in a new shell. It comes before BASH_COMPAT, which sets options itself.
		// IFS does not affect blanks in an evaluated command.
		line(`\builtin eval "\builtin shopt -u ${BASHOPTS//:/ }"`)
		unset, declarations := n.differing(variables(base))
		// Variables that the user unset must not come back from the environment.
		line(`\builtin unset -v %s`, strings.Join(unset, " "))
		// Declarations come before functions, because they use plain "declare", which a function may replace. The shell
		// refuses to set some of its own variables. That is intended.
		line("%s", declarations)
		w.WriteString(rebase(s.Base, base))
		line(`\builtin umask %s`, n.Umask)
		for _, dir := range slices.Backward(n.Dirs) {
			line(`\builtin pushd -n -- %s >/dev/null`, Quote(dir))
		}
		// Functions may contain extended patterns. bash prints them after alias expansion.
		if n.Functions != "" {
			line(`\builtin shopt -s extglob`)
			line("%s", n.Functions)
			line(`\builtin shopt -u extglob`)
			w.WriteString(functionFlags(n.FunctionFlags))
		}
		w.WriteString(shopts(n.Shopts))
		w.WriteString(options(n.Options))
	} else {
		// Agents define aliases to use them, as people do at a terminal.
		line(`\builtin shopt -s expand_aliases`)
	}
	w.WriteString(extra)
	line(`[[ x ]]`)
	return w.String()
}

// Begin returns commands to run between the state's script and the command. They set what must not be older than the
// command, run extra, and set the EXIT trap, which must not contain single quotes. Their status is that of the session's
// last command.
func (s *State) Begin(exitTrap, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	// With allexport the shell exports the variables it sets.
	line(`{ \builtin printf -v SECONDS 0; \builtin export -n BASH_EXECUTION_STRING SECONDS`)
	w.WriteString(extra)
	line(`\builtin unset -v __toolhost_script; \builtin trap '%s' EXIT`, exitTrap)
	line(`__toolhost_status() { \builtin unset -f __toolhost_status; \builtin return %d; }; __toolhost_status; } >/dev/null 2>&1`, s.Last)
	return w.String()
}

// BeginStateless is Begin for a command that is not [Ordinary]. Such a command needs extra, but not the values that only
// a shell can see.
func (s *State) BeginStateless(extra string) string {
	if s.Snapshot != nil && strings.Contains(s.Snapshot.Options, "allexport") {
		return `\builtin export -n BASH_EXECUTION_STRING; ` + extra
	}
	return extra
}

// EndStateless ends a shell after a stateless command. The exit status is in __toolhost_status.
const EndStateless = `\builtin exit "$__toolhost_status"`

// EndNoBackground is EndStateless for a command of kind [NoBackground] or [BuiltinOnly]: the shell
// reports the exit status first.
var EndNoBackground = fmt.Sprintf(`\builtin printf "%%s\0" "$__toolhost_status" >&%d; `, StatusFD) + EndStateless

// ParseStatus parses what a shell wrote to [StatusFD].
func ParseStatus(b []byte) (status int, ok bool) {
	text, whole := strings.CutSuffix(string(b), "\x00")
	status, err := strconv.Atoi(text)
	return status, whole && err == nil && status >= 0 && status <= 255
}

// rebase returns commands that apply changes of the given environment to a session that began with another one. They
// skip variables that the user changed.
func rebase(before, now []string) string {
	if slices.Equal(before, now) {
		return ""
	}
	var w strings.Builder
	old, cur := variables(before), variables(now)
	for _, name := range sorted(variables(slices.Concat(before, now))) {
		was, had := old[name]
		is, has := cur[name]
		if had == has && was == is {
			continue
		}
		untouched, change := fmt.Sprintf(`[[ -z ${%s+set} ]]`, name), `\builtin unset -v `+name
		if had {
			untouched = fmt.Sprintf(`[[ ${%s+=}${%s-} == %s ]]`, name, name, Quote("="+was))
		}
		if has {
			change = `\builtin export ` + name + "=" + Quote(is)
		}
		w.WriteString(untouched + " && " + change + "\n")
	}
	return w.String()
}

// isName reports whether s is a valid name of a shell variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// variables returns the variables of an environment whose names are valid in a shell.
func variables(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && isName(name) {
			m[name] = value
		}
	}
	return m
}

func sorted(env map[string]string) []string { return slices.Sorted(maps.Keys(env)) }

// functionFlags returns commands that restore the attributes of functions. A line of declare -F is "declare -fFLAGS
// NAME".
func functionFlags(lines string) string {
	var w strings.Builder
	for line := range strings.Lines(lines) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "declare -f")
		flags, name, found := strings.Cut(rest, " ")
		if ok && found && flags != "" {
			fmt.Fprintf(&w, "\\builtin declare -f%s -- %s\n", Quote(flags), Quote(name))
		}
	}
	return w.String()
}

// shopts returns a command that sets the options of $BASHOPTS, if all are off before.
func shopts(list string) string {
	var on []string
	for name := range strings.SplitSeq(list, ":") {
		if isName(name) && !shoptNotKept.MatchString(name) {
			on = append(on, name)
		}
	}
	if len(on) == 0 {
		return ""
	}
	return `\builtin shopt -s ` + strings.Join(on, " ") + "\n"
}

func options(list string) string {
	set := strings.Split(list, ":")
	line := `\builtin set`
	for _, o := range optionsKept {
		sign := "+"
		if slices.Contains(set, o) {
			sign = "-"
		}
		line += " " + sign + "o " + o
	}
	return line + "\n"
}

// Quote quotes any text as one word.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
