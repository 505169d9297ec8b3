// Package session implements the state that stays of a shell from one command to the next:
// variables, functions, aliases, options, the directory stack, the file mode mask and the last
// exit status. A shell reports it at its end (see [Dump] and [Parse]), and the next shell runs
// [State.Script] before its command.
//
// The state does not include what a command sets for itself: the options errexit, nounset, xtrace,
// verbose, pipefail and the other debugging options; traps; open files; positional parameters;
// background jobs of the shell; the working directory, which the host keeps.
package session
