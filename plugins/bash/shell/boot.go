package shell

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/bash/session"
)

// Descriptors in a new shell, with numbers that commands do not use. See also package session and commandsFD.
const (
	wakeFD  = 206 // a pipe: its first byte means that the two files below are written
	beginFD = 207 // the file with the result of begin
	stdinFD = 208
)

// boot is the script of a new shell. It restores the session's state, waits until it is woken, and runs the command.
//
// The script is one line, so that the command begins on line 1 and line numbers in bash's messages are right. It is also
// parsed as a whole before anything is defined. The command comes in a file, because an argument is limited to 128 KiB,
// and is stored where bash -c stores it. Files are read with mapfile, which ignores the user's IFS.
//
// The wait has a very long time limit, for two reasons. Without one, the user's TMOUT would apply. And a shell that
// waits with a limit does not read before it is woken: if a shell were killed while blocked in a read, the kernel might
// discard the byte with it, and the shell would seem to have run the command.
//
// The shell reports its state at the end of the command or, if the command calls exit, in the EXIT trap. A trap that the
// command sets itself runs after the first report and replaces the second. After a stateless command the shell ends
// before that.
var boot = strings.Join([]string{
	`{`, session.Read(session.ScriptFD, 1, "__toolhost_script"),
	fmt.Sprintf(`eval "$__toolhost_script" && \builtin printf %%s\\0 %s >&%d || \builtin exit; } >/dev/null 2>&1;`, session.Restored, session.DumpFD),
	// Each command from here on delays the user's command.
	fmt.Sprintf(`\builtin read -rN1 -t 99999999 -u %d __toolhost_script || \builtin exit;`, wakeFD),
	session.Read(beginFD, 3, "__toolhost_script"), `BASH_EXECUTION_STRING=${__toolhost_script[1]};`,
	`\builtin eval "$__toolhost_script"; \builtin eval "$BASH_EXECUTION_STRING";`,
	// From here on output of a trap or a trace is discarded.
	`{ __toolhost_status=$?; \builtin eval "${__toolhost_script[2]-}";`, session.Tell,
	// The EXIT trap, unless the command set its own, must add nothing, so its descriptor is closed. Redirections of
	// "builtin exec" do not persist, so a function named exec prevents that.
	fmt.Sprintf(`\builtin declare -F exec || \exec %d>&-; } >/dev/null 2>&1;`, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// begun returns commands that close the private files which a command of that kind would pass to its children. If stdin
// is set, they also redirect standard input to its file.
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

// begin returns what a shell reads when it is woken, in parts that each end with a NUL byte: the commands before the
// command, the command, and the commands after it. The last part is empty if the shell reports its state.
func begin(c *Command, stdin bool) string {
	extra := begun(&c.State, c.kind, stdin)
	if c.kind != session.BuiltinOnly { // it starts no process that could call a tool
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

// exitTrap is the shell's EXIT trap. It contains no single quote.
var exitTrap = `{ ` + session.Tell + ` } >/dev/null 2>&1`
