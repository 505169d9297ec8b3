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
	beginFD = 207 // what begin gives
	stdinFD = 208
)

// boot is what a new shell runs: it becomes what the session is, waits until it is
// woken, and runs the command. It is one line, so that the command begins on line
// 1 and bash's messages count its lines; being one line it is also parsed before
// anything is defined. The command comes by a file since an argument can have no
// more than 128 KiB, and is held where bash -c holds it. Files are read with mapfile,
// which the user's IFS does not concern; waiting is without a limit in fact, but says
// one, since the user's TMOUT would be it, and since a shell that waits with a limit
// does not read before it is awake: the kernel has one that is killed in a read take
// the byte with it, and it would seem to have run the command. The shell tells its state at
// the end of the command, or, when that calls exit, in the EXIT trap; a trap that the
// command sets itself runs after the first and replaces the second. After a stateless command
// it ends before that.
var boot = strings.Join([]string{
	`{`, session.Read(session.ScriptFD, 1, "__toolhost_script"),
	fmt.Sprintf(`eval "$__toolhost_script" && \builtin printf %%s\\0 %s >&%d || \builtin exit; } >/dev/null 2>&1;`, session.Restored, session.DumpFD),
	// From here on each command takes time of who waits for the user's.
	fmt.Sprintf(`\builtin read -rN1 -t 99999999 -u %d __toolhost_script || \builtin exit;`, wakeFD),
	session.Read(beginFD, 3, "__toolhost_script"), `BASH_EXECUTION_STRING=${__toolhost_script[1]};`,
	`\builtin eval "$__toolhost_script"; \builtin eval "$BASH_EXECUTION_STRING";`,
	// Here a trap or a trace of the command would print.
	`{ __toolhost_status=$?; \builtin eval "${__toolhost_script[2]-}";`, session.Tell,
	// The EXIT trap, unless it is the command's own, has nothing to add. Redirections of "builtin
	// exec" do not last, so with a function of that name there are none.
	fmt.Sprintf(`\builtin declare -F exec || \exec %d>&-; } >/dev/null 2>&1;`, session.DumpFD),
	`\builtin exit "$__toolhost_status"`,
}, " ")

// begun closes the private files that a command of that kind would hand on to what it starts, and with
// stdin takes standard input from the file made for that.
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

// begin returns what a shell reads when it is woken, each with a NUL byte at its end: what it runs before the command,
// the command, and what it runs after it if that is another end than telling the state.
func begin(c *Command, stdin bool) string {
	extra := begun(&c.State, c.kind, stdin)
	if c.kind != session.BuiltinOnly { // which has nothing that could call a tool
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

// exitTrap is the shell's EXIT trap; it has no single quote.
var exitTrap = `{ ` + session.Tell + ` } >/dev/null 2>&1`
