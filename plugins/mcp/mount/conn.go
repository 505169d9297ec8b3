package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// statelessVersion is the first protocol revision without sessions. A server of this revision sends its questions in
// results of calls, so each question belongs to a call.
const statelessVersion = "2026-07-28"

// conn is a connection to the server.
type conn struct {
	mount   *mount
	key     string // the session of a private connection; "" for the shared connection
	session *mcp.ClientSession
	server  *server // nil if the server is remote
	schemas *schemas
	// announced contains the capabilities that the server announced. It is nil before the connection.
	announced *announcement
	calls     running
	flood     flood // of log messages
	updates   flood // of notifications about changed resources
}

func newConn(m *mount, key string) *conn {
	return &conn{mount: m, key: key, schemas: new(schemas)}
}

// startError returns the error for a server that is not ready. The error contains the end of the server's standard
// error.
func (c *conn) startError(ctx context.Context, err error) error {
	text := clean(err.Error(), maxMessage)
	if ctx.Err() != nil {
		text = fmt.Sprintf("the server was not ready within %s (start_timeout)", c.mount.limits.Start)
	}
	var what string
	if u, err := url.Parse(c.mount.cfg.URL); err == nil && c.mount.cfg.URL != "" {
		text = withoutSecrets(text, u)
		u.User, u.RawQuery = nil, ""
		what = "The MCP server at " + u.String()
	} else {
		what = fmt.Sprintf("The MCP server %q", c.mount.cfg.Command[0]) // the arguments can contain a secret
	}
	if c.server != nil {
		if c.server.died() && ctx.Err() == nil {
			text = "the server ended: " + c.server.exitText()
		}
		if noise := c.server.wire.noiseText(); noise != "" {
			text += "; " + noise
		}
		if said := c.server.said.text(); said != "" {
			text += "; its standard error ends with:\n" + said
		}
	}
	hint := ""
	if c.mount.cfg.URL == "" {
		hint = "\nA confined server can read only the roots of the session and system directories, and has no network. To allow more, add a block beside the block mcp, with the lines that it needs:\nsandbox {\n  read = [\"/DIRECTORY\"]\n  network = true\n}"
	}
	return tool.Errorf(tool.Unavailable, "%s cannot be used: %s%s", what, strings.TrimSuffix(text, "\n"), hint)
}

// connect starts a local server or connects to a remote server. If version is empty, it first tries the newer protocol.
// A server of the older protocol can ignore the first request. In this case, [wire] answers the request for the server.
// If the server exits, connect starts it again with the older protocol. It does the same for a server that starts so
// slowly that its answer to the first request comes too late, and that then rejects the second one.
func (c *conn) connect(ctx context.Context, version string) error {
	if c.mount.cfg.URL != "" {
		h := c.mount.headers()
		c.announced = &h.announced
		defer h.announced.established()
		s, err := c.client().Connect(ctx, c.mount.remote(h), &mcp.ClientSessionOptions{ProtocolVersion: version})
		if denied := h.denied.Load(); err != nil && denied != nil {
			err = *denied // report the denied request; err is from a later attempt of the SDK with an older protocol
		}
		if versions := h.versions.Load(); err != nil && versions != nil {
			err = &versionsError{*versions}
		}
		c.session = s
		return err
	}
	err := c.start(ctx, version)
	if err == nil || version != "" || ctx.Err() != nil || c.server == nil {
		return err
	}
	if !c.server.wire.probeFailed() {
		return err
	}
	return c.start(ctx, legacyVersion)
}

func (c *conn) start(ctx context.Context, version string) error {
	if c.server != nil {
		c.server.stop(0)
	}
	s, err := startServer(&c.mount.cfg, c.schemas, c.heard)
	if err != nil {
		c.server = nil
		return err
	}
	c.server, c.announced = s, &s.wire.announced
	c.session, err = c.client().Connect(ctx, s.wire, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.wire.fail(err, false)
	}
	return err
}

// stateless reports whether the server speaks the newer protocol on this connection.
func (c *conn) stateless() bool {
	r := c.session.InitializeResult()
	return r != nil && r.ProtocolVersion >= statelessVersion
}

//nolint:staticcheck // roots and sampling belong to the older protocol, which most servers speak
func (c *conn) client() *mcp.Client {
	m := c.mount
	stale := func(method string) {
		m.stale.Store(true) // the host requests the lists after a notification, and sometimes after a call
		if method == tool.NotifyToolsChanged || m.cfg.offers(offerPrompts) || m.cfg.offers(offerResources) {
			m.news.tell(tool.Notification{Method: method})
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "toolhost", Version: Version}, &mcp.ClientOptions{
		Capabilities: m.cfg.capabilities(),
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errUnasked
		},
		ProgressNotificationHandler: c.progress,
		LoggingMessageHandler:       c.log,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			stale(tool.NotifyToolsChanged)
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			stale(tool.NotifyPromptsChanged)
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			stale(tool.NotifyResourcesChanged)
		},
		ResourceUpdatedHandler: c.updated,
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true}, // see conn.ask
	})
	client.AddReceivingMiddleware(c.requested)
	for _, r := range m.rootList() {
		client.AddRoots(r)
	}
	return client
}

// rootList returns the directories that the operator gave to the server.
//
//nolint:staticcheck // older servers know from the roots which directories they may work in
func (m *mount) rootList() []*mcp.Root {
	out := []*mcp.Root{}
	for _, r := range m.roots {
		out = append(out, &mcp.Root{
			URI: (&url.URL{Scheme: "file", Path: r.Path}).String(), Name: filepath.Base(r.Path),
		})
	}
	return out
}

// heard handles the notifications about a running call. The SDK would handle them at the same time as the result that
// follows them, so the last notifications could be lost.
//
//nolint:staticcheck // see client
func (c *conn) heard(r *jsonrpc.Request) bool {
	switch r.Method {
	case "notifications/message":
		p := new(mcp.LoggingMessageParams)
		if json.Unmarshal(r.Params, p) == nil {
			c.log(context.Background(), &mcp.LoggingMessageRequest{Params: p})
		}
	case "notifications/progress":
		p := new(mcp.ProgressNotificationParams)
		if json.Unmarshal(r.Params, p) == nil {
			c.progress(context.Background(), &mcp.ProgressNotificationClientRequest{Params: p})
		}
	default:
		return false
	}
	return true
}

var errUnasked = errors.New("the request belongs to no call")

// wait waits for the end of the connection and returns the reason.
func (c *conn) wait() string {
	err := c.session.Wait()
	why := "the connection to the MCP server ended"
	if err != nil {
		why += ": " + clean(err.Error(), maxMessage)
	}
	if c.server != nil {
		if c.server.died() {
			why = "the MCP server ended: " + c.server.exitText()
		}
		c.server.stop(0)
	}
	return why
}

// ended reports whether a local server has ended the connection.
func (c *conn) ended() bool { return c.server != nil && c.server.wire.ended() }

// close ends the server, or the session with a remote server.
func (c *conn) close(grace time.Duration) {
	if c.server != nil {
		c.server.stop(grace)
		return
	}
	if c.session == nil {
		return
	}
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		_ = c.session.Close() // ignore the error; this call ends the session in the remote server
	}()
	select {
	case <-closing:
	case <-time.After(grace):
	}
}
