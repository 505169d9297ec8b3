// Package capture implements the capture of a command's output, however large it is: the beginning
// and the end in memory, the whole output in a file if it is longer, and a live view that never
// delays the command.
package capture
