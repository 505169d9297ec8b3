package engine

import (
	"context"
	"net"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"

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

// Limits of the texts in a request, in bytes. The audit log and the database keep these texts for each call.
const (
	maxName      = 256
	maxWorkspace = 4096
)

// limitTexts shortens the texts of a request that are too long. It returns an error if a text was too long.
func (r *Request) limitTexts() (err error) {
	for _, t := range []struct {
		what string
		text *string
		max  int
	}{
		{"tool name", &r.Name, maxName}, {"session id", &r.Session, maxName}, {"workspace", &r.Workspace, maxWorkspace}, {"call id", &r.ID, maxName}, {"message id", &r.MessageID, maxName},
	} {
		if len(*t.text) > t.max {
			*t.text = strings.ToValidUTF8((*t.text)[:t.max], "")
			err = tool.Errorf(tool.InvalidArguments, "The %s is longer than %d bytes. Use a shorter one.", t.what, t.max)
		}
	}
	return err
}

// The type "busy" counts the running and queued calls of each principal with a limit.
type busy struct {
	mu sync.Mutex
	by map[string]int
}

// The method "enter" counts a call until the caller calls done. It returns an error if the principal has reached its
// limit.
func (b *busy) enter(who *Principal) (done func(), err error) {
	if who.MaxCalls == 0 {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = make(map[string]int)
	}
	if b.by[who.Name] >= who.MaxCalls {
		return nil, tool.Errorf(tool.Unavailable, "Principal %q already has %d calls, which is its limit. Wait for one of them to end, or ask the operator for a higher limit: limits { calls = … }.", who.Name, who.MaxCalls)
	}
	b.by[who.Name]++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.by[who.Name]--; b.by[who.Name] == 0 {
			delete(b.by, who.Name)
		}
	}), nil
}
