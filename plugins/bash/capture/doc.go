// Package capture keeps what a command prints, however much it is: the beginning
// and the end in memory, all of it in a file when that is not the whole, and a live
// view that never holds the command up.
package capture
