package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// optionsKept lists the options of set -o that last between commands. In a new shell, braceexpand is on and the others
// are off.
var optionsKept = []string{"allexport", "braceexpand", "keyword", "noclobber", "noglob", "physical"}

// shoptNotKept matches options that belong to a single shell or to debugging, and options that BASH_COMPAT sets.
var shoptNotKept = regexp.MustCompile(`^(extdebug|login_shell|restricted_shell|compat\d+)$`)

// Script returns commands that restore the session's state in a new shell. base is the environment of that shell. The
// commands run extra last, and their exit status is 0.
func (s *State) Script(base []string, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	if n := s.Snapshot; n != nil {
		// Turn off the options that are on in a new shell. This must come before BASH_COMPAT, which sets options itself.
		// IFS does not affect blanks in an evaluated command.
		line(`\builtin eval "\builtin shopt -u ${BASHOPTS//:/ }"`)
		unset, declarations := n.differing(variables(base))
		// Variables that the user unset must not return from the environment.
		line(`\builtin unset -v %s`, strings.Join(unset, " "))
		// Declarations come before functions, because they use plain "declare", which a function can replace. The shell
		// refuses to set some of its own variables, as intended.
		line("%s", declarations)
		w.WriteString(rebase(s.Base, base))
		line(`\builtin umask %s`, n.Umask)
		for _, dir := range slices.Backward(n.Dirs) {
			line(`\builtin pushd -n -- %s >/dev/null`, Quote(dir))
		}
		// Functions can contain extended patterns. bash prints functions after it has expanded aliases.
		if n.Functions != "" {
			line(`\builtin shopt -s extglob`)
			line("%s", n.Functions)
			line(`\builtin shopt -u extglob`)
			w.WriteString(functionFlags(n.FunctionFlags))
		}
		w.WriteString(shopts(n.Shopts))
		w.WriteString(options(n.Options))
	} else {
		// Enable aliases as in an interactive shell, because agents expect to use the aliases that they define.
		line(`\builtin shopt -s expand_aliases`)
	}
	w.WriteString(extra)
	line(`[[ x ]]`)
	return w.String()
}

// Begin returns commands that run between the state's script and the command. They set values that must be as recent as
// the command, run extra, and set the EXIT trap. exitTrap must not contain single quotes. Their exit status is the
// status of the session's last command.
func (s *State) Begin(exitTrap, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	// With the option allexport, the shell would export the variables that it sets here.
	line(`{ \builtin printf -v SECONDS 0; \builtin export -n BASH_EXECUTION_STRING SECONDS`)
	w.WriteString(extra)
	line(`\builtin unset -v __toolhost_script; \builtin trap '%s' EXIT`, exitTrap)
	line(`__toolhost_status() { \builtin unset -f __toolhost_status; \builtin return %d; }; __toolhost_status; } >/dev/null 2>&1`, s.Last)
	return w.String()
}

// BeginStateless replaces Begin for a command that is not [Ordinary]. Such a command needs only extra, because it does
// not show values of the shell.
func (s *State) BeginStateless(extra string) string {
	if s.Snapshot != nil && strings.Contains(s.Snapshot.Options, "allexport") {
		return `\builtin export -n BASH_EXECUTION_STRING; ` + extra
	}
	return extra
}

// EndStateless ends a shell after a stateless command. The variable __toolhost_status contains the exit status.
const EndStateless = `\builtin exit "$__toolhost_status"`

// EndNoBackground replaces EndStateless for a command of the kind [NoBackground] or [BuiltinOnly]. The shell first
// reports the exit status.
var EndNoBackground = fmt.Sprintf(`\builtin printf "%%s\0" "$__toolhost_status" >&%d; `, StatusFD) + EndStateless

// ParseStatus parses the text that a shell wrote to [StatusFD].
func ParseStatus(b []byte) (status int, ok bool) {
	text, whole := strings.CutSuffix(string(b), "\x00")
	status, err := strconv.Atoi(text)
	return status, whole && err == nil && status >= 0 && status <= 255
}

// rebase returns commands that apply the differences between two environments to the session. They skip variables that
// the user changed.
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

// functionFlags returns commands that restore the attributes of functions. lines is the output of declare -F, with lines
// of the form "declare -fFLAGS NAME".
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

// shopts returns a command that sets the options in $BASHOPTS. All options must be off before.
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

// Quote quotes a text so that the shell reads it as one word.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
