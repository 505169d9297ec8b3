// Package tool implements the vocabulary that the host, the wire and the tools share.
//
// A plugin author calls [toolhost.dev/sdk.NewTool] with a [Definition] and rarely needs more from
// here than [Errorf] and the kinds of errors. The other types are what a tool is given ([Call]),
// what it may send while it runs ([Peer]) and what it returns ([Result], [Error]).
//
// Both ends of the wire implement the same interface, [Plugin]: the server in a plugin's process,
// and the host's client of that server. So a plugin can be tested in process, and the host sees no
// difference.
package tool
