package setupcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// proveTimeout limits the time until the server has listed its tools.
const proveTimeout = time.Minute

// prove checks the written settings: it reads them again, starts the server or connects to it in the same way as the
// agent, and lists the server's tools.
func prove(ctx context.Context, s process.Stdio, plan *agent.Plan) error {
	l, err := plan.Launch(s.Environ())
	if err != nil {
		return err
	}
	if l.URL != "" {
		return proveRemote(ctx, s, plan, l)
	}
	var log bytes.Buffer
	c := exec.Command(l.Command[0], l.Command[1:]...) //nolint:gosec // the agent runs the same command
	c.Env, c.Dir, c.Stderr = l.Env, l.Dir, &log
	names, err := tools(ctx, &mcp.CommandTransport{Command: c})
	if err != nil {
		return fmt.Errorf("the settings were written, but the server fails if it is started in the way of %s: %w\n%s", plan.Agent.Title, err, screen.Clean(strings.TrimSpace(log.String())))
	}
	return offered(s.Out, plan, "Started "+strings.Join(l.Command, " "), names)
}

func proveRemote(ctx context.Context, s process.Stdio, plan *agent.Plan, l *agent.Launch) error {
	if l.Variable != "" && l.Authorization == "" {
		fmt.Fprintf(s.Out, "note: %s is not set here, so the server was not asked for its tools. Set it in the environment of %s.\n", l.Variable, plan.Agent.Title)
		return nil
	}
	names, err := remoteTools(ctx, l.URL, l.Authorization)
	if login := new(loginError); errors.As(err, &login) && l.Authorization == "" {
		fmt.Fprintf(s.Out, "note: %s lets %s log in at %s.\n", l.URL, plan.Agent.Title, screen.Printable(login.at))
		return nil
	}
	if err != nil {
		return fmt.Errorf("the settings are written, but %w", unreached(l.URL, err))
	}
	return offered(s.Out, plan, "Reached "+l.URL, names)
}

// offered prints the text done, which describes how the server was reached, and the tools that the server offers.
func offered(w io.Writer, plan *agent.Plan, done string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("the settings are written, but the server offers no tools to %s; see toolhost tools", plan.Agent.Title)
	}
	_, err := fmt.Fprintf(w, "%s as %s does. It offers %d tools: %s\n", screen.Printable(done), plan.Agent.Title, len(names),
		screen.Printable(strings.Join(names, ", ")))
	return err
}

// tools connects to a server and returns the names of its tools.
func tools(ctx context.Context, t mcp.Transport) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "toolhost-setup", Version: host.Version}, nil)
	session, err := client.Connect(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close() //nolint:errcheck // the tools were listed
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	return names, nil
}

// remoteTools connects to a server over HTTP and returns the names of its tools.
func remoteTools(ctx context.Context, url, authorization string) ([]string, error) {
	transport := &authorized{header: authorization}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // only this server may get the token
	}
	names, err := tools(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: -1,
	})
	if err != nil && transport.refused != nil {
		err = transport.refused
	}
	return names, err
}

// authorized adds a header to requests. It stores the first refusal of the server, because the MCP client does not
// return it.
type authorized struct {
	header  string
	refused error
}

// RoundTrip implements [http.RoundTripper].
func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if r = r.Clone(r.Context()); a.header != "" {
		r.Header.Set("Authorization", a.header)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || a.refused != nil {
		return resp, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		a.refused = &loginError{at: metadata(resp.Header.Get("WWW-Authenticate"))}
	case http.StatusForbidden, http.StatusNotFound:
		a.refused = statusError(resp.StatusCode)
	}
	return resp, nil
}

// metadata returns the address of the protected resource metadata (RFC 9728) that a challenge contains, or "".
func metadata(challenge string) string {
	_, rest, _ := strings.Cut(challenge, `resource_metadata="`)
	at, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return at
}

// loginError means that the server requires a login or another token. The field "at" is the address of the metadata in
// which the server names its login provider. It is empty if the server has no provider.
type loginError struct{ at string }

func (e *loginError) Error() string { return "the server requires a valid token (HTTP status 401)" }

type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the server answers with HTTP status %d", int(e))
}

func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// unreached adds a remedy to an error of a connection to a server over HTTP.
func unreached(url string, err error) error {
	status, login := statusError(0), new(loginError)
	switch {
	case errors.As(err, &login):
		return fmt.Errorf("%s: %w. If it uses another state directory than this command, run toolhost token create there and pass the token with --token-file or --token-env", url, err)
	case errors.As(err, &status) && status == http.StatusNotFound:
		return fmt.Errorf("%s: %w. Its configuration lacks this endpoint, or the endpoint does not list the principal of the agent; see toolhost config show", url, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: %w. The token may not be used there; see the principal blocks of its configuration", url, err)
	}
	return fmt.Errorf("%s cannot be used: %w. If it does not run, start it: toolhost serve", url, err)
}

// rejection returns the error for a server that the agent cannot use. With the flag --oauth, it returns nil if the
// server requires a login and names its provider.
func rejection(url string, err error, f *flags) error {
	login := new(loginError)
	switch {
	case err == nil:
		return nil
	case f.oauth && errors.As(err, &login) && login.at != "":
		return nil
	case f.oauth && errors.As(err, &login):
		return fmt.Errorf("nothing was written: %s names no provider to log in at. Add an issuer with resource to its configuration, or use --token-env", url)
	}
	return fmt.Errorf("nothing was written: %w", unreached(url, err))
}
