package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// optionsKept are those of set -o that stay from one command to the next. braceexpand
// is on in a new shell, the others are off.
var optionsKept = []string{"allexport", "braceexpand", "keyword", "noclobber", "noglob", "physical"}

// shoptNotKept are those that belong to one shell or to debugging, and those that
// the variable BASH_COMPAT stands for.
var shoptNotKept = regexp.MustCompile(`^(extdebug|login_shell|restricted_shell|compat\d+)$`)

// Script returns the commands that make a new shell, started with base as its
// environment, what the session's last one was; extra is run last. Their status is 0.
func (s *State) Script(base []string, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	if n := s.Snapshot; n != nil {
		// Those that are on in a new shell; before BASH_COMPAT, which has options of its own.
		// Blanks within a command that is evaluated are no matter of IFS.
		line(`\builtin eval "\builtin shopt -u ${BASHOPTS//:/ }"`)
		unset, declarations := n.differing(variables(base))
		// What the user unset must not come back from the environment.
		line(`\builtin unset -v %s`, strings.Join(unset, " "))
		// Before functions: it has plain "declare", which a function may replace.
		// The shell refuses to set some of its own variables; that is as it should be.
		line("%s", declarations)
		w.WriteString(rebase(s.Base, base))
		line(`\builtin umask %s`, n.Umask)
		for _, dir := range slices.Backward(n.Dirs) {
			line(`\builtin pushd -n -- %s >/dev/null`, Quote(dir))
		}
		// Functions may be written with extended patterns, and are told as they are
		// after the expansion of aliases.
		if n.Functions != "" {
			line(`\builtin shopt -s extglob`)
			line("%s", n.Functions)
			line(`\builtin shopt -u extglob`)
			w.WriteString(functionFlags(n.FunctionFlags))
		}
		w.WriteString(shopts(n.Shopts))
		w.WriteString(options(n.Options))
	} else {
		// Agents define aliases to use them, as people at a terminal do.
		line(`\builtin shopt -s expand_aliases`)
	}
	w.WriteString(extra)
	line(`[[ x ]]`)
	return w.String()
}

// Begin returns the commands that come between the state's script and the command: what
// must not be older than the command, then extra. They set the EXIT trap, which must be
// without single quotes. Their status is that of the session's last command.
func (s *State) Begin(exitTrap, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	// With allexport the shell exports what it sets.
	line(`{ \builtin printf -v SECONDS 0; \builtin export -n BASH_EXECUTION_STRING SECONDS`)
	w.WriteString(extra)
	line(`\builtin unset -v __toolhost_script; \builtin trap '%s' EXIT`, exitTrap)
	line(`__toolhost_status() { \builtin unset -f __toolhost_status; \builtin return %d; }; __toolhost_status; } >/dev/null 2>&1`, s.Last)
	return w.String()
}

// BeginStateless is Begin for a command that is not [Ordinary]: it needs extra, and nothing that only a
// shell can see.
func (s *State) BeginStateless(extra string) string {
	if s.Snapshot != nil && strings.Contains(s.Snapshot.Options, "allexport") {
		return `\builtin export -n BASH_EXECUTION_STRING; ` + extra
	}
	return extra
}

// EndStateless ends a shell after a stateless command, with the exit status in __toolhost_status.
const EndStateless = `\builtin exit "$__toolhost_status"`

// EndNoBackground is EndStateless for a command of kind [NoBackground] or [BuiltinOnly]: the shell
// reports the exit status first.
var EndNoBackground = fmt.Sprintf(`\builtin printf "%%s\0" "$__toolhost_status" >&%d; `, StatusFD) + EndStateless

// ParseStatus reads what a shell wrote to [StatusFD].
func ParseStatus(b []byte) (status int, ok bool) {
	text, whole := strings.CutSuffix(string(b), "\x00")
	status, err := strconv.Atoi(text)
	return status, whole && err == nil && status >= 0 && status <= 255
}

// rebase brings changes of the given environment into a session that began with
// another, where the user did not change the variable.
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

// isName reports whether a shell can have a variable of that name.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// variables returns those of an environment that a shell can name.
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

// functionFlags restores the attributes of functions: a line of declare -F is
// "declare -fFLAGS NAME".
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

// shopts restores the options that $BASHOPTS told, when all are off.
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

// Quote makes one word of any text.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
