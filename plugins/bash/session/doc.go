// Package session is what stays of a shell from one command to the next: variables,
// functions, aliases, options, the directory stack, the file mode mask and the last
// exit status. The shell tells it at its end (see [Dump] and [Parse]); the next
// shell runs [State.Script] before its command.
//
// Not kept, because a command means them for itself: the options errexit, nounset,
// xtrace, verbose, pipefail and the other debugging ones; traps; open files;
// positional parameters; background jobs of the shell; the working directory, which
// the host keeps.
package session
