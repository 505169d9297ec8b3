// Package tool is the vocabulary that the host, the wire and the tools share:
// what a tool is ([Definition]), what it is given ([Call]), what it may say while
// it runs ([Peer]) and what it gives back ([Result], [Error]).
//
// The same interface, [Plugin], stands on both ends of the wire: a plugin's
// server implements it, and so does the host's client of that server. So a
// plugin can be tested in process, and the host cannot tell the difference.
package tool
