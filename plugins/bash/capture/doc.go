// Package capture stores the output of commands, whose size is unlimited. It keeps the beginning and the end in
// memory, and writes longer output completely to a file. A live view forwards the output without delaying the
// command.
package capture
