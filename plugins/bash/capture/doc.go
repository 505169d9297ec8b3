// Package capture stores a command's output of any size. It keeps the beginning and the end in memory, and writes longer
// output completely to a file. A live view forwards the output without delaying the command.
package capture
