package shell

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/bash/session"
)

// Descriptors of a new shell, far from those that commands use; see also
// package session and commandsFD.
const (
	wakeFD  = 206 // a pipe: with its first byte the two below are there
	beginFD = 207 // session.State.Begin and the command
	stdinFD = 208
)

// boot is what a new shell runs: it becomes what the session is, waits until it is
// woken, and runs the command. It is one line, so that the command begins on line
// 1 and bash's messages count its lines; being one line it is also parsed before
// anything is defined. The command comes by a file since an argument can have no
// more than 128 KiB, and is held where bash -c holds it. Files are read with mapfile,
// which the user's IFS does not concern; waiting is without a limit in fact, but says
// one, since the user's TMOUT would be it. The shell tells its state at
// the end of the command, or, when that calls exit, in the EXIT trap; a trap that the
// command sets itself runs after the first and replaces the second. An inert command
// has its own end, and the shell does not get to telling.
var boot = strings.Join([]string{
	`{`, session.Read(session.ScriptFD, 1, "__toolhost_script"), `eval "$__toolhost_script" || \builtin exit;`,
	fmt.Sprintf(`\builtin read -rN1 -t 99999999 -u %d __toolhost_script || \builtin exit;`, wakeFD),
	session.Read(beginFD, 2, "__toolhost_script"), `BASH_EXECUTION_STRING=${__toolhost_script[1]};`,
	`\builtin eval "$__toolhost_script"; } >/dev/null 2>&1;`,
	`\builtin eval "$BASH_EXECUTION_STRING";`,
	// Here a trap or a trace of the command would print.
	`{ __toolhost_status=$?;`, session.Tell,
	// The EXIT trap, unless it is the command's own, has nothing to add.
	fmt.Sprintf(`%s%d>&-; } >/dev/null 2>&1;`, redirect, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// redirect begins redirections of the shell itself. Those of "builtin exec" do not last,
// so with a function of that name there are none, and the descriptors stay open.
const redirect = `\builtin declare -F exec || \exec `

// begun closes the files of the beginning, and takes standard input from the file made for that.
func begun(stdin bool) string {
	input := ""
	if stdin {
		input = fmt.Sprintf(" <&%d", stdinFD)
	}
	return fmt.Sprintf("%s%s %d<&- %d<&- %d<&-\n", redirect, input, wakeFD, beginFD, stdinFD)
}

// exitTrap is the shell's EXIT trap; it has no single quote.
var exitTrap = `{ ` + session.Tell + ` } >/dev/null 2>&1`
