// Package shell runs commands in bash: a fresh shell for each, which first becomes
// what the session's last one was and at its end tells what it has become (package
// session). The end of a command is the end of its shell, or what the shell tells before it in a
// pipe of its own, if the command is known to leave nothing; nothing is read from its output to
// find it.
//
// The next shell of a session is started while nobody waits for it, and becomes what
// the session is. It is used if that is what the next command is to find (see
// [Runner]), and thrown away if not; so it makes a command faster and nothing else.
package shell
