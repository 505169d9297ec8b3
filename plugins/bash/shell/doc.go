// Package shell implements the execution of commands in bash. Each command has a fresh shell,
// which first restores the state of the session's last shell and at its end reports its own
// (package session). A command ends when its shell ends, or when the shell reports its exit status
// in a separate pipe, if the command is known to leave no process behind. Nothing is read from the
// command's output to find its end.
//
// The next shell of a session is started while nobody waits for it, and becomes what
// the session is. It is used if that is what the next command is to find (see
// [Runner]), and thrown away if not; so it makes a command faster and nothing else.
package shell
