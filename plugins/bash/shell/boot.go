package shell

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/bash/session"
)

// Descriptors of a new shell, far from those that commands use; see also
// [session.DumpFD].
const (
	dumpFD    = 202 // session.Dump, read at the end
	commandFD = 203
	scriptFD  = 204 // session.State.Script
)

// tell reads the commands that tell the state, and runs them. Read as a file they
// are neither in sight of ps and trap -p nor in the way of the user's names.
var tell = fmt.Sprintf(`\builtin set +euxv; \builtin read -rN 99999 -u %d __toolhost_dump; \builtin eval "$__toolhost_dump";`, dumpFD)

// boot is what a new shell runs. It is one line, so that the command begins on line
// 1 and bash's messages count its lines; being one line it is also parsed before
// anything is defined. The command comes by a file since an argument can have no
// more than 128 KiB, and is held where bash -c holds it. The shell tells its state at
// the end of the command, or, when that calls exit, in the EXIT trap; a trap that the
// command sets itself runs after the first and replaces the second.
var boot = strings.Join([]string{
	fmt.Sprintf(`IFS= read -r -d "" -u %d BASH_EXECUTION_STRING; IFS= read -r -d "" -u %d __toolhost_script;`, commandFD, scriptFD),
	fmt.Sprintf(`exec %d<&- %d<&-;`, commandFD, scriptFD),
	`{ eval "$__toolhost_script" || \builtin exit; } >/dev/null 2>&1;`,
	`__toolhost_status;`,
	`\builtin eval "$BASH_EXECUTION_STRING";`,
	// Here a trap or a trace of the command would print.
	`{ __toolhost_status=$?;`, tell,
	// The EXIT trap, unless it is the command's own, has nothing to add.
	fmt.Sprintf(`\builtin exec %d>&-; } >/dev/null 2>&1;`, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// exitTrap is the shell's EXIT trap; it has no single quote.
var exitTrap = `{ ` + tell + ` } >/dev/null 2>&1`
