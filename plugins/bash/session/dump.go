package session

import (
	"fmt"
	"slices"
	"strings"
)

// The following constants are numbers of file descriptors in a shell. Commands do not use such high numbers.
const (
	// ScriptFD is the file with the code that the shell runs: [State.Script] at its start and [Tell] at its end.
	ScriptFD = 204
	// DumpFD is the pipe to which the shell writes [Restored] and then its dump.
	DumpFD = 205
	// StatusFD is the pipe to which the shell writes the exit status of a command. The pipe is used only if the result
	// does not need to wait for the end of the shell. See [ParseStatus].
	StatusFD = 209
)

// Read returns shell commands that read the next n texts of a file into an array. A NUL byte ends each text. The
// user's IFS does not affect the commands.
func Read(fd, n int, name string) string {
	return fmt.Sprintf(`\builtin mapfile -n %d -td "" -u %d %s;`, n, fd, name)
}

// Texts returns the texts that follow the script in the file of [ScriptFD]. The first text contains the dump commands.
// The second text is empty, so that a second run of Tell, in the EXIT trap, does nothing. The third text contains the
// rarely needed commands that remove local variables.
func Texts() string { return "\x00" + dump + "\x00\x00" + unshadow + "\x00" }

// Tell is the code that the shell runs at its end, at top level or in its EXIT trap. The output of Tell is
// discarded. Tell reads the dump commands from a file. Therefore ps and trap -p do not show the commands, and the
// commands cannot conflict with the user's names.
var Tell = `\builtin set +euxv; ` + Read(ScriptFD, 1, "__toolhost_dump") + ` \builtin eval "$__toolhost_dump";`

// dump contains the shell commands that write the state of the shell. They also work if the user has redefined builtins
// or uses aliases, traps, unusual options or an unusual IFS.
var dump = strings.Join([]string{
	// Remove the traps. Their output would otherwise get into the dump.
	`((BASH_SUBSHELL)) || { \builtin trap - DEBUG ERR RETURN;`,
	`{ \builtin printf "D\0%s\0" "$SHELLOPTS"; \builtin set +o posix;`,
	`\builtin printf "%s\0" "$BASHOPTS"; \builtin pwd; \builtin printf "\0%s\0" "${#DIRSTACK[@]}";`,
	`((${#DIRSTACK[@]} == 0)) || \builtin printf "%s\0" "${DIRSTACK[@]}";`,
	`\builtin umask; \builtin printf "\0";`,
	// If a function calls exit, its local variables are still visible. Remove them.
	`[[ -z ${FUNCNAME-} ]] || ((BASH_VERSINFO[0] < 5)) || {`, Read(ScriptFD, 2, "__toolhost_dump"), `\builtin eval "${__toolhost_dump[1]}"; };`,
	`\builtin printf "\0";`,
	// The other variables that are not kept stay: an EXIT trap of the command can run after the dump, and use them.
	`\builtin unset -v __toolhost_dump __toolhost_v __toolhost_n;`,
	// Reading the list of aliases makes bash update the list.
	`[[ ${BASH_ALIASES[@]} ]]; \builtin declare -p; \builtin printf "\0";`,
	`\builtin declare -f; \builtin printf "\0";`,
	`\builtin declare -F; \builtin printf "\0E\0"; } >&205; }`,
}, " ")

// unshadow removes the local variables of the functions in which exit was called, so that the global variables are
// visible again. It prints the names of variables that it cannot remove.
//
// The code runs in a function, because unset then removes the local variables of the callers one level after the other.
// First it sets the trace attribute, which variables do not use, on the global variable of each name. A visible
// variable with that attribute is therefore a global one. A name without a global variable is unset at the end. All
// references (declare -n) are removed, because local references cannot be distinguished from global ones.
var unshadow = strings.Join([]string{
	`__toolhost_unshadow() { \builtin unset -f __toolhost_unshadow; for __toolhost_v in`, allNames(), `; do`,
	`if [[ $__toolhost_v == __toolhost_* ]]; then [[ x ]]; elif [[ -R $__toolhost_v ]]; then \builtin unset -n "$__toolhost_v"; else`,
	`\builtin declare -gt "$__toolhost_v"; __toolhost_n=0;`,
	`while [[ ${!__toolhost_v@a} != *t* ]] && ((++__toolhost_n < 10)); do`,
	`\builtin unset -v "$__toolhost_v" || { \builtin printf "%s " "$__toolhost_v"; __toolhost_n=10; }; done;`,
	`[[ ${!__toolhost_v@a} != *t* ]] || \builtin declare -g +t "$__toolhost_v"; fi; done; };`,
	`__toolhost_unshadow;`,
}, " ")

// allNames returns a bash expansion that produces the names of all variables.
func allNames() string {
	var s strings.Builder
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz" {
		s.WriteString(`"${!` + string(c) + `@}" `)
	}
	return s.String()
}

// ofACall lists variables that are set anew in the shell of each command.
var ofACall = []string{"BASH_EXECUTION_STRING", "TOOLHOST_TREE", "TOOLHOST_CALL", "TOOLHOST_COMMANDS"}

// notKept lists variables that describe one shell and must not be set in the next shell. [Parse] drops them.
var notKept = slices.Concat(ofACall, []string{
	"BASH", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
	"BASH_LINENO", "BASH_REMATCH", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSION", "BASH_XTRACEFD",
	"COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "GROUPS", "HISTCMD",
	"HOSTNAME", "HOSTTYPE", "LINENO", "MACHTYPE", "OPTIND", "OSTYPE", "PIPESTATUS", "PWD", "RANDOM", "SECONDS", "SRANDOM",
	"_",
})
