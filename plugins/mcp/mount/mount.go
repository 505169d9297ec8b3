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

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin. It is also the client version sent to servers.
const Version = "0.1.0"

// legacyVersion is the last protocol revision in which a connection begins with the request "initialize".
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
	Command  []string          `json:"command,omitempty" jsonschema:"The program to start, with its arguments."`
	Env      map[string]string `json:"env,omitempty" jsonschema:"Variables to add to the program's environment."`
	Cwd      string            `json:"cwd,omitempty" jsonschema:"The program's working directory. The default is the workspace."`
	URL      string            `json:"url,omitempty" jsonschema:"The URL of a server for streamable HTTP."`
	Headers  map[string]string `json:"headers,omitempty" jsonschema:"Headers to send with every request to the URL."`
	Offer    []string          `json:"offer,omitempty" jsonschema:"What of the server is offered: tools, prompts, resources, completions and logging. The default is tools."`
	Allow    []string          `json:"allow,omitempty" jsonschema:"What the server may ask of a client: elicitation, elicitation-url, sampling and roots. The default is elicitation."`
	Sessions string            `json:"sessions,omitempty" jsonschema:"Which clients share a connection to the server: shared, for all, or client, for one session each. The default is shared, or client if allow has sampling or roots."`
}

// mount is a mounted server with its connections.
type mount struct {
	limits Limits
	// end is a function that is called once after the server has ended. It usually ends the process and does not
	// return.
	end   func()
	cfg   Config
	state string // the plugin's own directory
	roots []tool.Root

	connecting sync.Mutex
	shared     *conn // nil before the first list
	private    privateConns
	tools      []sdk.Tool // the last list of tools; nil before the first list
	items      atomic.Pointer[[]tool.Item]
	stale      atomic.Bool // true if the server has announced a new list
	newestOnly atomic.Bool // true if the server refused the older protocol
	news       news
	subs       subscriptions
	logged     sync.Map // the kinds of declined requests that were logged

	closed chan struct{} // closed when the plugin ends
}

// Plugin returns the plugin. If remote is true, the server has a URL and the plugin does not start it. The function
// "end" is called after the server has ended. It must end the process, because the next call needs a new process.
func Plugin(limits Limits, remote bool, end func()) sdk.Plugin {
	m := &mount{limits: limits, end: end, closed: make(chan struct{}), news: newNews()}
	m.private.mount = m
	needs := &sdk.Needs{Read: sdk.Optional, Write: sdk.Optional, Exec: sdk.Required, Network: sdk.Optional}
	if remote {
		needs = &sdk.Needs{Network: sdk.Required}
	}
	return sdk.Plugin{
		Name: "mcp", Version: Version,
		Needs:    needs,
		Config:   sdk.NewConfig(m.configure),
		Discover: m.discover,
		Relay:    &sdk.Relay{Items: m.listedItems, Exchange: m.exchange, Listen: m.news.listen},
		Close:    sync.OnceFunc(m.close),
	}
}

func (m *mount) configure(_ context.Context, c Config, s sdk.Setup) error {
	m.roots, m.state = s.Roots, s.StateDir
	if c.Cwd == "" && len(s.Roots) > 0 {
		c.Cwd = s.Roots[0].Path
	}
	m.cfg = c
	if err := c.checkWords(); err != nil {
		return err
	}
	switch {
	case c.URL != "" && len(c.Command) > 0:
		return &sdk.ConfigError{
			Path: []string{"url"}, Summary: "Both command and url are set", Detail: "Give either command or url.",
		}
	case c.URL != "":
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return &sdk.ConfigError{Path: []string{"url"}, Summary: fmt.Sprintf("%q is not a URL of a server", c.URL),
				Detail: "Write it as https://host/path."}
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
		return &sdk.ConfigError{Path: []string{"command"},
			Summary: fmt.Sprintf("Cannot find the program %q", c.Command[0]), Detail: commandAdvice(c.Command[0], err)}
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
	go func() { // close waits for the lock, so a server that is slow to answer must not hold it
		select {
		case <-m.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	m.connecting.Lock()
	defer m.connecting.Unlock()
	if m.shared == nil {
		c := newConn(m, "")
		if err := c.connect(ctx, ""); err != nil {
			return nil, c.startError(ctx, err)
		}
		m.shared = c
		go m.watch(c)
	}
	if stale := m.stale.Swap(false); m.tools != nil && !stale {
		return m.tools, nil
	}
	err := m.refresh(ctx)
	if err != nil {
		m.stale.Store(true)
		return nil, m.shared.startError(ctx, err)
	}
	return m.tools, nil
}

// refresh requests the server's lists again.
func (m *mount) refresh(ctx context.Context) error {
	var tools []sdk.Tool
	if m.cfg.offers(offerTools) {
		listed, err := m.shared.list(ctx)
		if err != nil {
			return fmt.Errorf("the server does not list its tools: %w", err)
		}
		tools = m.convert(listed)
	}
	items, err := m.shared.listItems(ctx)
	if err != nil {
		return err
	}
	m.items.Store(&items)
	if m.tools = tools; m.tools == nil {
		m.tools = []sdk.Tool{}
	}
	return nil
}

// listedItems returns the prompts, resources and other features that the server listed last.
func (m *mount) listedItems() []tool.Item {
	if items := m.items.Load(); items != nil {
		return *items
	}
	return nil
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

// watch waits for the end of the shared connection. Then it ends the process.
func (m *mount) watch(c *conn) {
	why := c.wait()
	select {
	case <-m.closed:
		return
	default:
	}
	m.private.close()
	_, _ = fmt.Fprintln(stderr, why)
	m.end()
}

// close ends a local server or the session with a remote server, and all private connections.
func (m *mount) close() {
	close(m.closed)
	m.private.close()
	m.connecting.Lock()
	defer m.connecting.Unlock()
	if m.shared != nil {
		m.shared.close(time.Second)
	}
}
