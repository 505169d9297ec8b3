package engine

import (
	"context"
	"net"

	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/principal"
)

// Principal is an authenticated caller. See package principal.
type Principal = principal.Principal

// Directory authenticates the clients of a server. See package principal.
type Directory = principal.Directory

// Secret is a token that the server received at its start.
type Secret = principal.Secret

// These are names of package principal, for use in package host.
const (
	RightCall       = principal.Call
	RightAnswer     = principal.Answer
	RightLog        = principal.Log
	RightAdminister = principal.Administer
)

// LocalUser returns the principal of the user of this process. See host.LocalUser.
func LocalUser() *Principal { return principal.LocalUser() }

// StartToken returns the principal of clients that present the token of a server. See host.StartToken.
func StartToken(workspaces []string) *Principal { return principal.StartToken(workspaces) }

// ApproverToken returns the principal that answers permission requests. See host.ApproverToken.
func ApproverToken() *Principal { return principal.ApproverToken() }

// ConnContext returns a context for the requests of a connection. See host.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := control.PeerUser(socket)
	return principal.WithPeer(ctx, principal.Peer{User: uid, Err: err})
}

// Directory returns a directory with the principals and issuers of the current configuration, and with the tokens of the
// state directory.
func (e *Engine) Directory() *Directory {
	var tokens *principal.Tokens
	if e.home.Root != "" {
		tokens = principal.OpenTokens(e.home.Root)
	}
	return principal.NewDirectory(func() principal.Blocks { return e.Current().Access }, tokens)
}

// Workspace returns the workspace in which the host was started.
func (e *Engine) Workspace() string { return e.opts.Workspace }
