// Package capture forwards the output of running commands. A live view does so without delaying the command. Package
// spill keeps the output for the result.
package capture
