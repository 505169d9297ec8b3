package shell

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/bash/session"
)

// The following constants are numbers of file descriptors in a new shell. Commands do not use such high numbers.
// Further numbers are defined in package session and by commandsFD.
const (
	wakeFD  = 206 // a pipe; its first byte means that the two files below are written
	beginFD = 207 // the file with the result of the function "begin"
	stdinFD = 208
)

// boot is the script of a new shell. It restores the session's state, waits for the wake-up byte, and runs the
// command.
//
// The script is a single line. Therefore the command begins on line 1, and the line numbers in bash's messages are
// correct. bash also parses this line completely before it defines anything. The command is in a file, because an
// argument is limited to 128 KiB. The script stores the command in BASH_EXECUTION_STRING, as bash -c does. Files are
// read with mapfile, which ignores the user's IFS.
//
// The wait has a very long time limit, for two reasons. Without a limit, the user's TMOUT would apply. The shell would
// also block in the read, and could lose the byte if it is killed there. The plugin would then believe that the shell
// had run the command. With a limit, the shell reads only after the byte has arrived.
//
// The shell reports its state at the end of the command. If the command calls exit, the EXIT trap reports the state.
// If the command sets its own EXIT trap, that trap runs after the first report and replaces the second report. After
// a stateless command, the shell ends before the report.
var boot = strings.Join([]string{
	`{`, session.Read(session.ScriptFD, 1, "__toolhost_script"),
	fmt.Sprintf(`eval "$__toolhost_script" && \builtin printf %%s\\0 %s >&%d || \builtin exit; } >/dev/null 2>&1;`, session.Restored, session.DumpFD),
	// Each shell command after this line delays the user's command.
	fmt.Sprintf(`\builtin read -rN1 -t 99999999 -u %d __toolhost_script || \builtin exit;`, wakeFD),
	session.Read(beginFD, 3, "__toolhost_script"), `BASH_EXECUTION_STRING=${__toolhost_script[1]};`,
	`\builtin eval "$__toolhost_script"; \builtin eval "$BASH_EXECUTION_STRING";`,
	// After this line, the output of traps and traces is discarded.
	`{ __toolhost_status=$?; \builtin eval "${__toolhost_script[2]-}";`, session.Tell,
	// The shell's own EXIT trap must not report the state again. Therefore close the descriptor to which this trap
	// writes. An EXIT trap of the command is allowed to remain. Redirections of "builtin exec" do not persist.
	// Therefore the script cannot close the descriptor if a function named exec exists.
	fmt.Sprintf(`\builtin declare -F exec || \exec %d>&-; } >/dev/null 2>&1;`, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// begun returns shell code that closes the private files of the shell, so that a command of the given kind does not
// pass them to its children. If stdin is true, the code also redirects standard input from the file with the command's
// input.
func begun(s *session.State, kind session.Kind, stdin bool) string {
	if s.Defines("exec") || kind == session.BuiltinOnly && !stdin {
		return ""
	}
	files := closeFiles
	if kind < session.NoBackground {
		files = closeAllFiles
	}
	if stdin {
		return takeStdin + files
	}
	return `\exec` + files
}

var (
	closeFiles    = fmt.Sprintf(" %d<&- %d<&- %d<&-\n", wakeFD, beginFD, stdinFD)
	closeAllFiles = fmt.Sprintf(" %d>&-", session.StatusFD) + closeFiles
	takeStdin     = fmt.Sprintf(`\exec <&%d`, stdinFD)
)

// begin returns the text that a shell reads when it is woken. The text has three parts: the code before the command,
// the command, and the code after the command. A NUL byte ends each part. The third part is empty if the shell must
// report its state.
func begin(c *Command, stdin bool) string {
	extra := begun(&c.State, c.kind, stdin)
	if c.kind != session.BuiltinOnly { // a command that uses only builtins starts no process that could call a tool
		extra = grant(c.Tools) + extra
	}
	first, end := "", ""
	switch c.kind {
	case session.NoBackground, session.BuiltinOnly:
		first, end = c.State.BeginStateless(extra), session.EndNoBackground
	case session.Stateless:
		first, end = c.State.BeginStateless(extra), session.EndStateless
	case session.Ordinary:
		first = c.State.Begin(exitTrap, extra)
	}
	return first + "\x00" + c.Text + "\x00" + end + "\x00"
}

// exitTrap is the shell's EXIT trap. It must not contain a single quote.
var exitTrap = `{ ` + session.Tell + ` } >/dev/null 2>&1`
