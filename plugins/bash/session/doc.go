// Package session implements the shell state that lasts from one command to the next: variables, functions, aliases,
// options, the directory stack, the file mode mask and the last exit status. A shell reports its state at its end (see
// [Texts] and [Parse]). The next shell runs [State.Script] before its command.
//
// The state does not include settings of a single command: the options errexit, nounset, xtrace, verbose, pipefail and
// the other debugging options, traps, open files, positional parameters, and background jobs of the shell. The host
// keeps the working directory.
package session
