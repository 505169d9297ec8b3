package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// optionsKept lists the options of set -o that are kept between commands. In a new shell, braceexpand is on and the
// other options are off.
var optionsKept = []string{"allexport", "braceexpand", "keyword", "noclobber", "noglob", "physical"}

// shoptNotKept matches the options of shopt that are not kept: options of a single shell, options for debugging, and
// options that BASH_COMPAT sets.
var shoptNotKept = regexp.MustCompile(`^(extdebug|login_shell|restricted_shell|compat\d+)$`)

// Script returns shell commands that restore the session's state in a new shell. The argument "base" is the environment
// of the new shell. The commands in the argument "extra" run last. The exit status is 0.
func (s *State) Script(base []string, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	if n := s.Snapshot; n != nil {
		// Turn off the options that are on in a new shell. This must precede BASH_COMPAT, which sets options itself.
		// The builtin eval splits its text at blanks regardless of IFS.
		line(`\builtin eval "\builtin shopt -u ${BASHOPTS//:/ }"`)
		unset, declarations := n.differing(variables(base))
		// Unset those variables in the environment of the new shell that the user has unset.
		line(`\builtin unset -v %s`, strings.Join(unset, " "))
		// Declarations must precede functions. They use a plain "declare", which a function can replace. The shell
		// refuses to set some of its own variables, which is intended.
		line("%s", declarations)
		w.WriteString(rebase(s.Base, base))
		line(`\builtin umask %s`, n.Umask)
		for _, dir := range slices.Backward(n.Dirs) {
			line(`\builtin pushd -n -- %s >/dev/null`, Quote(dir))
		}
		// Functions can contain extended patterns. Aliases must be off, because bash prints functions after it has
		// expanded aliases.
		if n.Functions != "" {
			line(`\builtin shopt -s extglob`)
			line("%s", n.Functions)
			line(`\builtin shopt -u extglob`)
			w.WriteString(functionFlags(n.FunctionFlags))
		}
		w.WriteString(shopts(n.Shopts))
		w.WriteString(options(n.Options))
	} else {
		// Enable aliases as in an interactive shell. Agents expect that the aliases that they define work.
		line(`\builtin shopt -s expand_aliases`)
	}
	w.WriteString(extra)
	line(`[[ x ]]`)
	return w.String()
}

// Begin returns shell commands that run between the state's script and the command. They set values that must be
// current when the command starts, run the commands in the argument "extra", and set the EXIT trap. The argument
// "exitTrap" must not contain single quotes. The exit status is the status of the session's last command.
func (s *State) Begin(exitTrap, extra string) string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	// If the option allexport is on, the shell exports the variables that it sets here.
	line(`{ \builtin printf -v SECONDS 0; \builtin export -n BASH_EXECUTION_STRING SECONDS`)
	w.WriteString(extra)
	line(`\builtin unset -v __toolhost_script; \builtin trap '%s' EXIT`, exitTrap)
	line(`__toolhost_status() { \builtin unset -f __toolhost_status; \builtin return %d; }; __toolhost_status; } >/dev/null 2>&1`, s.Last)
	return w.String()
}

// BeginStateless replaces Begin for a command whose kind is not [Ordinary]. Such a command needs only the commands in
// the argument "extra", because it prints no values of the shell.
func (s *State) BeginStateless(extra string) string {
	if s.Snapshot != nil && strings.Contains(s.Snapshot.Options, "allexport") {
		return `\builtin export -n BASH_EXECUTION_STRING; ` + extra
	}
	return extra
}

// EndStateless is the code that ends a shell after a stateless command. The variable __toolhost_status contains the
// exit status.
const EndStateless = `\builtin exit "$__toolhost_status"`

// EndNoBackground replaces EndStateless for a command of the kind [NoBackground] or [BuiltinOnly]. Its code reports
// the exit status before the shell ends.
var EndNoBackground = fmt.Sprintf(`\builtin printf "%%s\0" "$__toolhost_status" >&%d; `, StatusFD) + EndStateless

// ParseStatus parses the text that a shell wrote to [StatusFD].
func ParseStatus(b []byte) (status int, ok bool) {
	text, whole := strings.CutSuffix(string(b), "\x00")
	status, err := strconv.Atoi(text)
	return status, whole && err == nil && status >= 0 && status <= 255
}

// rebase returns shell commands that apply the differences between two environments to the session. It skips
// variables that the user has changed.
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

// functionFlags returns shell commands that restore the attributes of functions. The argument "lines" is the output of
// declare -F, with lines of the form "declare -fFLAGS NAME".
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

// shopts returns a shell command that sets the options in $BASHOPTS. All options must be off before the command
// runs.
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

// Quote quotes a text for the shell, which then reads the text as one word.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
