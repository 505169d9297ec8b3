// Package shell implements the execution of commands in bash. Each command has a fresh shell,
// which first restores the state of the session's last shell and at its end reports its own
// (package session). A command ends when its shell ends, or when the shell reports its exit status
// in a separate pipe, if the command is known to leave no process behind. Nothing is read from the
// command's output to find its end.
//
// The next shell of a session is started ahead of time and restores the session's state. It is used if its state is what
// the next command needs (see [Runner]), and else discarded. So it only makes commands faster.
package shell
