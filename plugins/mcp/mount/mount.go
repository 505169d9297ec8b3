// Package mount implements a plugin with the tools of an MCP server. Each process is connected to one server and ends
// with that server.
package mount

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin. It is also the client version sent to servers.
const Version = "0.1.0"

// legacyVersion is the last protocol revision in which a connection begins with the request initialize.
const legacyVersion = "2025-11-25"

// Limits contains the timeouts of the plugin.
type Limits struct {
	// Start limits the time until a server has started and returned its list of tools.
	Start time.Duration
	// Call limits how long a call can run without progress.
	Call time.Duration
}

// Config is the mcp block of the operator's configuration.
type Config struct {
	Command []string          `json:"command,omitempty" jsonschema:"The program to start, with its arguments."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Variables to add to the program's environment."`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"The program's working directory. The default is the workspace."`
	URL     string            `json:"url,omitempty" jsonschema:"The URL of a server for streamable HTTP."`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"Headers to send with every request to the URL."`
}

// mount is the connection to one server.
type mount struct {
	limits Limits
	// end is a function that is called once after the server has ended. It usually ends the process and does not
	// return.
	end   func()
	cfg   Config
	state string // the plugin's own directory
	roots []tool.Root
	calls running

	connecting sync.Mutex
	session    *mcp.ClientSession
	server     *server // nil if the server is remote
	schemas    *schemas
	tools      []sdk.Tool  // the last list of tools; nil before the first list
	stale      atomic.Bool // true if the server has announced a new list

	closed chan struct{}
}

// Plugin returns the plugin. If remote is true, the server has a URL and the plugin does not start it. The function
// "end" is called after the server has ended. It must end the process, because the next call needs a new process.
func Plugin(limits Limits, remote bool, end func()) sdk.Plugin {
	m := &mount{limits: limits, end: end, schemas: new(schemas), closed: make(chan struct{})}
	needs := &sdk.Needs{Read: sdk.Optional, Write: sdk.Optional, Exec: sdk.Required, Network: sdk.Optional}
	if remote {
		needs = &sdk.Needs{Network: sdk.Required}
	}
	return sdk.Plugin{
		Name: "mcp", Version: Version,
		Needs:    needs,
		Config:   sdk.NewConfig(m.configure),
		Discover: m.discover,
		Close:    sync.OnceFunc(m.close),
	}
}

func (m *mount) configure(_ context.Context, c Config, s sdk.Setup) error {
	m.roots, m.state = s.Roots, s.StateDir
	if c.Cwd == "" && len(s.Roots) > 0 {
		c.Cwd = s.Roots[0].Path
	}
	m.cfg = c
	switch {
	case c.URL != "" && len(c.Command) > 0:
		return &sdk.ConfigError{Path: []string{"url"}, Summary: "Both command and url are set", Detail: "Give either command or url."}
	case c.URL != "":
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return &sdk.ConfigError{Path: []string{"url"}, Summary: fmt.Sprintf("%q is not a URL of a server", c.URL), Detail: "Write it as https://host/path."}
		}
		if len(c.Env) > 0 {
			return &sdk.ConfigError{Path: []string{"env"}, Summary: "A server with a url cannot have env", Detail: "Remove env. To send values with each request, set headers."}
		}
		return checkHeaders(c.Headers)
	case len(c.Headers) > 0:
		return &sdk.ConfigError{Path: []string{"headers"}, Summary: "A server with a command cannot have headers", Detail: "Remove headers. To pass values to the program, set env."}
	case len(c.Command) == 0 || c.Command[0] == "":
		return &sdk.ConfigError{Summary: "Neither command nor url is set", Detail: "Write command = [\"program\", \"argument\"] or url = \"https://…\"."}
	}
	if path, ok := c.Env["PATH"]; ok {
		_ = os.Setenv("PATH", path) // set PATH, because exec.LookPath searches for the command in PATH
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return &sdk.ConfigError{Path: []string{"command"}, Summary: fmt.Sprintf("Cannot find the program %q", c.Command[0]), Detail: commandAdvice(c.Command[0], err)}
	}
	m.cfg.Command = append([]string{path}, c.Command[1:]...)
	if st, err := os.Stat(m.cfg.Cwd); m.cfg.Cwd != "" && (err != nil || !st.IsDir()) {
		return &sdk.ConfigError{Path: []string{"cwd"}, Summary: fmt.Sprintf("The directory %s of the server does not exist", m.cfg.Cwd), Detail: "Create the directory or correct the path. If the directory is outside of the roots, name it in the sandbox block of the field."}
	}
	return nil
}

func commandAdvice(name string, err error) string {
	var e *exec.Error
	if errors.As(err, &e) && errors.Is(e.Err, os.ErrPermission) {
		return "Make the program executable (chmod +x). If it is outside of the PATH and the roots, name its directory in the sandbox block of the field: sandbox { read = [\"…\"] }."
	}
	if filepath.IsAbs(name) {
		return "Install the program or correct the path."
	}
	return "Install the program, correct the name, or give its path. The PATH is: " + strings.Join(filepath.SplitList(os.Getenv("PATH")), ", ") + "."
}

// discover returns the server's current tools.
func (m *mount) discover(ctx context.Context) ([]sdk.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.limits.Start)
	defer cancel()
	m.connecting.Lock()
	defer m.connecting.Unlock()
	if m.session == nil {
		if err := m.connect(ctx); err != nil {
			return nil, m.startError(ctx, err)
		}
		go m.watch()
	}
	if stale := m.stale.Swap(false); m.tools != nil && !stale {
		return m.tools, nil
	}
	listed, err := m.list(ctx)
	if err != nil {
		m.stale.Store(true)
		return nil, m.startError(ctx, fmt.Errorf("the server does not list its tools: %w", err))
	}
	m.tools = m.convert(listed)
	return m.tools, nil
}

// startError returns the error for a server that is not ready. The error contains the end of the server's standard
// error.
func (m *mount) startError(ctx context.Context, err error) error {
	text := clean(err.Error(), maxMessage)
	if ctx.Err() != nil {
		text = fmt.Sprintf("the server was not ready within %s (start_timeout)", m.limits.Start)
	}
	var what string
	if u, err := url.Parse(m.cfg.URL); err == nil && m.cfg.URL != "" {
		text = withoutSecrets(text, u)
		u.User, u.RawQuery = nil, ""
		what = "The MCP server at " + u.String()
	} else {
		what = fmt.Sprintf("The MCP server %q", m.cfg.Command[0]) // the arguments can contain a secret
	}
	if m.server != nil {
		if m.server.died() && ctx.Err() == nil {
			text = "the server ended: " + m.server.exitText()
		}
		if said := m.server.said.text(); said != "" {
			text += "; its standard error ends with:\n" + said
		}
	}
	hint := ""
	if m.cfg.URL == "" {
		hint = "\nA confined server can read only the roots of the session and system directories, and has no network. To allow more, add a block beside mcp: sandbox { read = [\"/DIRECTORY\"], network = true }."
	}
	return tool.Errorf(tool.Unavailable, "%s cannot be used: %s%s", what, strings.TrimSuffix(text, "\n"), hint)
}

// withoutSecrets removes the user and the query of a URL from a text, because they can contain a secret.
func withoutSecrets(text string, u *url.URL) string {
	if u.User != nil {
		text = strings.ReplaceAll(text, u.User.String()+"@", "")
		text = strings.ReplaceAll(text, u.User.Username()+":***@", "") // package http replaces the password
	}
	if u.RawQuery != "" {
		text = strings.ReplaceAll(text, "?"+u.RawQuery, "")
	}
	return text
}

// connect starts a local server or connects to a remote server. It first tries the newer protocol. A
// server of the older protocol can react in two ways: if it ignores the first request, [wire] answers the request for
// the server; if it exits, connect starts the server again with the older protocol.
func (m *mount) connect(ctx context.Context) error {
	if m.cfg.URL != "" {
		s, err := m.client().Connect(ctx, m.remote(), nil)
		m.session = s
		return err
	}
	err := m.start(ctx, "")
	if err == nil || ctx.Err() != nil {
		return err
	}
	if probed, heard := m.server.wire.probe(); !probed || heard {
		return err
	}
	return m.start(ctx, legacyVersion)
}

func (m *mount) start(ctx context.Context, version string) error {
	if m.server != nil {
		m.server.stop(0)
	}
	s, err := startServer(&m.cfg, m.schemas)
	if err != nil {
		m.server = nil
		return err
	}
	m.server = s
	m.session, err = m.client().Connect(ctx, s.wire, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.wire.fail(err, false)
	}
	return err
}

func (m *mount) client() *mcp.Client {
	//nolint:staticcheck // older servers have what they may work on from the roots
	c := mcp.NewClient(&mcp.Implementation{Name: "toolhost", Version: Version}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}},
		ElicitationHandler:          m.elicit,
		ProgressNotificationHandler: m.progress,
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { m.stale.Store(true) }, // only set the flag, because the host requests the list after each call
	})
	for _, r := range m.roots {
		//nolint:staticcheck // see above
		c.AddRoots(&mcp.Root{URI: (&url.URL{Scheme: "file", Path: r.Path}).String(), Name: filepath.Base(r.Path)})
	}
	return c
}

// watch waits for the end of the connection. Then it ends the process.
func (m *mount) watch() {
	err := m.session.Wait()
	select {
	case <-m.closed:
		return
	default:
	}
	why := "the connection to the MCP server ended"
	if err != nil {
		why += ": " + clean(err.Error(), maxMessage)
	}
	if m.server != nil {
		if m.server.died() {
			why = "the MCP server ended: " + m.server.exitText()
		}
		m.server.stop(0)
	}
	_, _ = fmt.Fprintln(stderr, why)
	m.end()
}

// close ends a local server or the session with a remote server.
func (m *mount) close() {
	close(m.closed)
	if m.server != nil {
		m.server.stop(time.Second)
		return
	}
	m.connecting.Lock()
	defer m.connecting.Unlock()
	if m.session != nil {
		closing := make(chan struct{})
		go func() {
			defer close(closing)
			_ = m.session.Close() // ignore the error; this call ends the session in the remote server
		}()
		select {
		case <-closing:
		case <-time.After(time.Second):
		}
	}
}
