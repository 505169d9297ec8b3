package session

import (
	"fmt"
	"slices"
	"strings"
)

// Descriptors of a shell, far from those that commands use.
const (
	// ScriptFD is what it runs: [State.Script], and at its end [Tell].
	ScriptFD = 204
	// DumpFD is what it writes to: [Restored], then its dump.
	DumpFD = 205
	// StatusFD is what it writes the exit status of a command to that is over, if that is no
	// matter of the shell's own end; see [ParseStatus].
	StatusFD = 209
)

// Read returns the commands that read the next n parts of a file, each with a NUL at its end,
// into an array. It is no matter of the user's IFS.
func Read(fd, n int, name string) string {
	return fmt.Sprintf(`\builtin mapfile -n %d -td "" -u %d %s;`, n, fd, name)
}

// Texts are what [ScriptFD] has after the script: what tells the state; nothing, for the shell
// that comes to telling a second time, in its EXIT trap; and what is seldom needed.
func Texts() string { return "\x00" + dump + "\x00\x00" + unshadow + "\x00" }

// Tell is what the shell runs at its end, at top level or as its EXIT trap, with its output
// and errors discarded. It has the commands read from a file, where they are neither in sight of
// ps and trap -p nor in the way of the user's names.
var Tell = `\builtin set +euxv; ` + Read(ScriptFD, 1, "__toolhost_dump") + ` \builtin eval "$__toolhost_dump";`

// dump tells the state of the shell. It is written to survive what a
// user can do to a shell: redefined builtins, aliases, odd options, IFS or traps.
var dump = strings.Join([]string{
	// What a trap prints must not get into the dump.
	`((BASH_SUBSHELL)) || { \builtin trap - DEBUG ERR RETURN;`,
	`{ \builtin printf "D\0%s\0" "$SHELLOPTS"; \builtin set +o posix;`,
	`\builtin printf "%s\0" "$BASHOPTS"; \builtin pwd; \builtin printf "\0%s\0" "${#DIRSTACK[@]}";`,
	`((${#DIRSTACK[@]} == 0)) || \builtin printf "%s\0" "${DIRSTACK[@]}";`,
	`\builtin umask; \builtin printf "\0";`,
	// exit within a function leaves its local variables in sight.
	`[[ -z ${FUNCNAME-} ]] || ((BASH_VERSINFO[0] < 5)) || {`, Read(ScriptFD, 2, "__toolhost_dump"), `\builtin eval "${__toolhost_dump[1]}"; };`,
	`\builtin printf "\0";`,
	`\builtin unset -v`, strings.Join(notKept, " "), `;`,
	// bash brings the list of aliases up to date when it is looked at.
	`[[ ${BASH_ALIASES[@]} ]]; \builtin declare -p; \builtin printf "\0";`,
	`\builtin declare -f; \builtin printf "\0";`,
	`\builtin declare -F; \builtin printf "\0E\0"; } >&205; }`,
}, " ")

// unshadow removes the local variables of the functions that exit was called in, so
// that the global ones are seen again, and prints the names of those that it cannot
// remove. It works in a function, where unset takes away a caller's local variable
// layer by layer: the trace attribute, which variables do not use, is set on the
// global variable of each name, so the visible one is it when it has the attribute.
// A name that has no global variable is then left without any. References
// (declare -n) are all removed: it cannot be told which are local.
var unshadow = strings.Join([]string{
	`__toolhost_unshadow() { \builtin unset -f __toolhost_unshadow; for __toolhost_v in`, allNames(), `; do`,
	`if [[ $__toolhost_v == __toolhost_* ]]; then [[ x ]]; elif [[ -R $__toolhost_v ]]; then \builtin unset -n "$__toolhost_v"; else`,
	`\builtin declare -gt "$__toolhost_v"; __toolhost_n=0;`,
	`while [[ ${!__toolhost_v@a} != *t* ]] && ((++__toolhost_n < 10)); do`,
	`\builtin unset -v "$__toolhost_v" || { \builtin printf "%s " "$__toolhost_v"; __toolhost_n=10; }; done;`,
	`[[ ${!__toolhost_v@a} != *t* ]] || \builtin declare -g +t "$__toolhost_v"; fi; done; };`,
	`__toolhost_unshadow;`,
}, " ")

// allNames expands to the names of all variables.
func allNames() string {
	var s strings.Builder
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz" {
		s.WriteString(`"${!` + string(c) + `@}" `)
	}
	return s.String()
}

// ofACall are variables that each command's shell is given anew.
var ofACall = []string{"BASH_EXECUTION_STRING", "TOOLHOST_TREE", "TOOLHOST_CALL", "TOOLHOST_COMMANDS"}

// notKept are variables that say something of one shell, and must not be set in the
// next one.
var notKept = slices.Concat(ofACall, []string{
	"BASH", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
	"BASH_LINENO", "BASH_REMATCH", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSION", "BASH_XTRACEFD",
	"COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "GROUPS", "HISTCMD",
	"HOSTNAME", "HOSTTYPE", "LINENO", "MACHTYPE", "OPTIND", "OSTYPE", "PIPESTATUS", "PWD", "RANDOM", "SECONDS", "SRANDOM",
	"__toolhost_dump", "__toolhost_v", "__toolhost_n", "_",
})
