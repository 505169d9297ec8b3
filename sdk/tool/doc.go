// Package tool defines the types that the host, the wire protocol and the tools share.
//
// A plugin author calls [toolhost.dev/sdk.NewTool] with a [Definition]. Apart from NewTool, most authors need only
// [Errorf] and the kinds of errors. The other types describe the input of a tool ([Call]), its messages while it
// runs ([Peer]) and its output ([Result], [Error]).
//
// Both ends of the connection implement the same interface, [Plugin]: the server in a plugin's process, and the
// host's client of that server. Therefore a test can call a plugin in process, and the host notices no difference.
package tool
