package host

import (
	"context"
	"net"

	"toolhost.dev/host/internal/engine"
)

// Principal is an authenticated caller with its rights, its workspaces and its tools. A principal does not change.
type Principal = engine.Principal

// Directory authenticates the clients of a server. It is safe for concurrent use, except for its fields, which must not
// change after the first request. See [Host.Directory].
type Directory = engine.Directory

// Secret is a token with the principal that it authenticates.
type Secret = engine.Secret

// The rights of principals.
const (
	RightCall       = engine.RightCall       // run tools
	RightAnswer     = engine.RightAnswer     // answer the permission asks of other principals
	RightLog        = engine.RightLog        // read the status, the statistics and the asks
	RightAdminister = engine.RightAdminister // give answers that apply to later calls
)

// CodeWorkspace is the code of the error for a workspace that the principal may not use.
const CodeWorkspace = engine.CodeWorkspace

// Directory returns a directory with the principals and issuers of the configuration, and with the tokens that "toolhost
// token create" made. It follows changes of both. The caller can set Secrets and Anonymous.
func (h *Host) Directory() *Directory { return h.engine.Directory() }

// LocalUser returns the principal of the user of this process, who has all rights.
func LocalUser() *Principal { return engine.LocalUser() }

// StartToken returns the principal of clients that know the token with which a server was started. It can call tools in
// the given workspaces, and read status and statistics. Without workspaces, it can only work in the workspace of the
// host. "DIR/*" means each directory directly inside DIR.
func StartToken(workspaces ...string) *Principal { return engine.StartToken(workspaces) }

// ApproverToken returns a principal that can answer the asks of all others, and cannot call tools.
func ApproverToken() *Principal { return engine.ApproverToken() }

// ConnContext returns a context for the requests of a connection, for use as [http.Server.ConnContext]. In requests over
// a Unix socket, [Directory.Authenticate] identifies the client by the user of its process.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return engine.ConnContext(ctx, conn)
}
