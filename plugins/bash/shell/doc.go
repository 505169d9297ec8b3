// Package shell runs commands in bash. Each command has a fresh shell. The shell first restores the state of the
// session's last shell. At its end it reports its own state (package session). A command ends when its shell ends.
// If the command certainly leaves no process behind, it ends earlier: when the shell reports the exit status in a
// separate pipe. The package never searches the command's output for its end.
//
// The next shell of a session is started in advance and restores the session's state. If the next command needs a
// different state, the shell is discarded (see [Runner]). Shells that are started in advance only make commands
// faster.
package shell
