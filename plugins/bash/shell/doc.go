// Package shell runs commands in bash: a fresh shell for each, which first becomes
// what the session's last one was and at its end tells what it has become (package
// session). The end of a command is the end of its shell; nothing is read from its
// output to find it.
package shell
