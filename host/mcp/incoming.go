package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// incoming is a request of a client that becomes a call of the host: a call of a tool, or an exchange.
type incoming struct {
	session *mcp.ServerSession
	extra   *mcp.RequestExtra
	version string
	caps    *mcp.ClientCapabilities
	meta    mcp.Meta
	token   any // token of progress notifications; nil if the client wants none
	// about names the request: its method, the name of the tool or item, and the arguments.
	about []string
	// place is where the request runs: the workspace, the endpoint and the plugin.
	place []string
	// state and responses continue an earlier request.
	state     string
	responses mcp.InputResponseMap
}

// toolCall returns a call of a tool as an incoming request.
func toolCall(req *mcp.CallToolRequest) *incoming {
	return &incoming{
		session: req.Session, extra: req.GetExtra(), version: req.ProtocolVersion(), caps: req.ClientCapabilities(),
		meta: req.Params.Meta, token: req.Params.GetProgressToken(),
		about: []string{"tools/call", req.Params.Name, string(req.Params.Arguments)}, state: req.Params.RequestState,
		responses: req.Params.InputResponses,
	}
}

// hash returns a hash of the client, of what it requests and of where the request runs.
func (in *incoming) hash() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range slices.Concat([]string{in.owner()}, in.about, in.place) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash returns no errors
		h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// owner returns the name of the principal that sent the request. It is empty for the local user.
func (in *incoming) owner() string {
	if in.extra != nil && in.extra.TokenInfo != nil {
		return in.extra.TokenInfo.UserID
	}
	return ""
}

// maxHandle is the maximum length of a handle.
const maxHandle = 128

// handle returns the handle that a client sent back, or "".
func (in *incoming) handle() string {
	handle, _ := in.meta[keySession].(string)
	if len(handle) > maxHandle {
		return ""
	}
	return handle
}

// header returns a header of the HTTP request, or "".
func (in *incoming) header(name string) string {
	if in.extra == nil {
		return ""
	}
	return in.extra.Header.Get(name)
}

// client describes the client for the plugins of mounted servers.
func (in *incoming) client() *tool.ClientInfo {
	out := &tool.ClientInfo{Protocol: in.version, LogLevel: in.logLevel()}
	if in.caps == nil {
		return out
	}
	has := make(map[string]any)
	//nolint:staticcheck // revisions before 2026-07-28 have sampling and roots
	if in.caps.Sampling != nil {
		has["sampling"] = in.caps.Sampling
	}
	if in.caps.RootsV2 != nil { //nolint:staticcheck // see above
		has["roots"] = in.caps.RootsV2 //nolint:staticcheck // see above
	}
	if in.caps.Elicitation != nil {
		has["elicitation"] = in.caps.Elicitation
	}
	out.Capabilities, _ = json.Marshal(has) // capabilities that the SDK decoded can be encoded again
	return out
}

// logLevel returns the lowest level of the log messages that the client wants. In revisions with sessions, the SDK
// knows the level, and drops further messages.
func (in *incoming) logLevel() string {
	if in.version < stateless {
		return "debug"
	}
	level, _ := in.meta[mcp.MetaKeyLogLevel].(string) //nolint:staticcheck // clients still send it
	return level
}

// can reports whether the client supports a request.
//
//nolint:staticcheck // revisions before 2026-07-28 have sampling and roots
func (in *incoming) can(request mcp.InputRequest) bool {
	c := in.caps
	if c == nil {
		return false
	}
	switch p := request.(type) {
	case *mcp.ElicitParams:
		return c.Elicitation != nil && (p.Mode != "url" || c.Elicitation.URL != nil)
	case *mcp.CreateMessageParams, *mcp.CreateMessageWithToolsParams:
		return c.Sampling != nil
	case *mcp.ListRootsParams:
		return c.RootsV2 != nil
	}
	return false
}

// base returns the part of a host request that does not depend on the method.
func (s *Server) base(in *incoming) host.Request {
	who := principalOf(in.extra)
	if s.opts.Tools != nil {
		who = s.caller(in.extra)
	}
	call := host.Request{
		Principal: who, Endpoint: s.opts.Endpoint, Trace: in.header("traceparent"), Client: in.client(),
	}
	call.Session, call.From = s.sessionOf(in)
	if call.Branch = in.branch(); call.Branch == "" {
		call.Branch = s.opts.Branch
	}
	return call
}

// keyBranch is the key of the name of a branch in the metadata of a call, or of the request "initialize" for all calls
// of a connection.
const keyBranch = metaPrefix + "branch"

// keyCallID is the key of the client's own id of a call in the metadata of the call; see [host.Request.Once].
const keyCallID = metaPrefix + "call-id"

// workspaceHeader is the header with the name of a workspace of a fleet.
const workspaceHeader = "Toolhost-Workspace"

// branch returns the name of the branch that the client chose, or "".
func (in *incoming) branch() string {
	if name, ok := in.meta[keyBranch].(string); ok {
		return name
	}
	if in.session == nil {
		return ""
	}
	init := in.session.InitializeParams()
	if init == nil {
		return ""
	}
	name, _ := init.Meta[keyBranch].(string)
	return name
}

// drainTime is how long a session waits for answers of the SDK after the end of its input.
const drainTime = time.Second

// drain waits until the requests that the SDK handles are answered, such as initialize and ping. Without it, a client
// that sends its requests and closes its output at once would miss answers. It does not wait for calls of tools.
func (l *stream) drain() {
	ctx, stop := context.WithTimeout(l.ctx, drainTime)
	defer stop()
	for l.unanswered() {
		select {
		case <-l.written:
		case <-ctx.Done():
			return
		}
	}
}

// unanswered reports whether the SDK has not yet written the answer to a request.
func (l *stream) unanswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, request := range l.open {
		if request.cancel == nil {
			return true
		}
	}
	return l.writes.Load() > 0
}

// wrote records the end of a write. A value that nobody has received yet stands for all writes.
func (l *stream) wrote() {
	l.writes.Add(-1)
	select {
	case l.written <- struct{}{}:
	default:
	}
}
