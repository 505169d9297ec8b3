package shell

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/bash/session"
)

// Descriptors of a new shell, far from those that commands use; see also
// [session.DumpFD] and commandsFD.
const (
	dumpFD    = 202 // session.Dump, read at the end
	commandFD = 203
	scriptFD  = 204 // session.State.Script
	wakeFD    = 206 // a pipe: with its first byte the two below and the command are there
	beginFD   = 207 // session.State.Begin
	stdinFD   = 208
)

// tell reads the commands that tell the state, and runs them. Read as a file they
// are neither in sight of ps and trap -p nor in the way of the user's names.
var tell = fmt.Sprintf(`\builtin set +euxv; \builtin read -rN 99999 -u %d __toolhost_dump; \builtin eval "$__toolhost_dump";`, dumpFD)

// boot is what a new shell runs: it becomes what the session is, waits until it is
// woken, and runs the command. It is one line, so that the command begins on line
// 1 and bash's messages count its lines; being one line it is also parsed before
// anything is defined. The command comes by a file since an argument can have no
// more than 128 KiB, and is held where bash -c holds it. Whole files are read with -N,
// which the user's IFS does not concern; waiting is without a limit in fact, but says
// one, since the user's TMOUT would be it. The shell tells its state at
// the end of the command, or, when that calls exit, in the EXIT trap; a trap that the
// command sets itself runs after the first and replaces the second.
var boot = strings.Join([]string{
	`{`, read(scriptFD, "__toolhost_script"), fmt.Sprintf(`exec %d<&-;`, scriptFD),
	`eval "$__toolhost_script" || \builtin exit;`,
	fmt.Sprintf(`\builtin read -rN1 -t 99999999 -u %d __toolhost_script || \builtin exit;`, wakeFD),
	read(beginFD, "__toolhost_script"), read(commandFD, "BASH_EXECUTION_STRING"),
	fmt.Sprintf(`%s%d<&- %d<&- %d<&-;`, redirect, commandFD, wakeFD, beginFD),
	`\builtin eval "$__toolhost_script" || \builtin exit; } >/dev/null 2>&1;`,
	`__toolhost_status;`,
	`\builtin eval "$BASH_EXECUTION_STRING";`,
	// Here a trap or a trace of the command would print.
	`{ __toolhost_status=$?;`, tell,
	// The EXIT trap, unless it is the command's own, has nothing to add.
	fmt.Sprintf(`%s%d>&-; } >/dev/null 2>&1;`, redirect, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// read gives the command that reads all of a file into a variable.
func read(fd int, name string) string {
	return fmt.Sprintf(`\builtin read -rN %d -u %d %s;`, 1<<30, fd, name)
}

// redirect begins redirections of the shell itself. Those of "builtin exec" do not last,
// so with a function of that name there are none, and the descriptors stay open.
const redirect = `\builtin declare -F exec || \exec `

// takeStdin has the shell take its standard input from the file made for that.
var takeStdin = fmt.Sprintf("%s <&%d\n", redirect, stdinFD)

// dropStdin closes that file.
var dropStdin = fmt.Sprintf("%s %d<&-\n", redirect, stdinFD)

// exitTrap is the shell's EXIT trap; it has no single quote.
var exitTrap = `{ ` + tell + ` } >/dev/null 2>&1`
