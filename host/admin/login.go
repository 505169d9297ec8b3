package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/principal"
)

// Login is a login at a remote MCP server.
type Login = principal.Login

// RemoteServer is a field that connects to a remote MCP server.
type RemoteServer struct {
	Field string
	URL   string
	// Header reports whether the configuration contains a header Authorization for the server. The host then ignores a
	// login.
	Header bool
	// OAuth contains the settings of the configuration for the login.
	OAuth config.OAuth
	// Login is the login at the server. A nil Login means that nobody logged in. Err is the reason why a saved login
	// cannot be read.
	Login *Login
	Err   error
}

// RemoteServers returns the fields of the configuration that connect to remote MCP servers, with their logins. It
// starts no plugin. It returns an error if the configuration is not valid.
func RemoteServers(opts Options) ([]RemoteServer, error) {
	cfg, store, err := logins(opts)
	if err != nil {
		return nil, err
	}
	var out []RemoteServer
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if server, header := p.Server(); server != "" {
			r := RemoteServer{Field: p.Name, URL: server, Header: header, OAuth: p.OAuth}
			r.Login, r.Err = store.Load(server)
			out = append(out, r)
		}
	}
	return out, nil
}

// FindRemoteServer returns a field that connects to a remote MCP server. If the given field does not, the error lists
// the fields that do.
func FindRemoteServer(opts Options, field string) (*RemoteServer, error) {
	all, err := RemoteServers(opts)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Field == field {
			return &all[i], nil
		}
		names = append(names, all[i].Field)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no field has a remote server; add one:\nfield %q {\n  mcp { url = \"https://…\" }\n}", field)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("field %q has no remote server; these have one: %q%s", field, names, suggest.DidYouMean(field, names))
}

// LoginClient returns an HTTP client for the authorization server of a remote server. It only connects to public
// addresses, unless the server itself is in the user's network.
func LoginClient(server string) *http.Client { return principal.LoginClient(server) }

// SaveLogin replaces the login at a remote server. Hosts with the same state directory use it within seconds.
func SaveLogin(opts Options, l *Login) error {
	_, store, err := logins(opts)
	if err != nil {
		return err
	}
	return store.Save(l)
}

// RemoveLogin deletes the login at the server of a field, and asks the authorization server to revoke its tokens. It
// returns false if there was no login. The error "revoked" is the reason why the server did not revoke the tokens.
// Running hosts stop using the login within seconds.
func RemoveLogin(ctx context.Context, opts Options, r *RemoteServer) (removed bool, revoked, err error) {
	_, store, err := logins(opts)
	if err != nil {
		return false, nil, err
	}
	if removed, err = store.Remove(r.URL); !removed || err != nil {
		return removed, nil, err
	}
	if r.Login != nil {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		revoked = principal.RevokeLogin(ctx, r.Login)
	}
	return true, revoked, nil
}

func logins(opts Options) (*config.Config, *principal.Logins, error) {
	cfg, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, nil, err
	}
	return cfg, principal.OpenLogins(dir), nil
}

// Pinged is the result of a ping of a mounted server.
type Pinged struct {
	Field string `json:"field"`
	// URL is empty if the server is a program.
	URL string `json:"url,omitempty"`
	// Server describes the server. It is nil if the server cannot be used.
	Server *tool.Pong `json:"server,omitempty"`
	// Error is the reason why the server cannot be used. Next is the command with which a person can correct the error.
	Error *tool.Error `json:"error,omitempty"`
	Next  string      `json:"next,omitempty"`
}

// PingServers starts a separate host with the mounted servers of the given fields, or of all fields. It pings all
// servers at the same time and waits at most for the duration "wait". It returns an error if the configuration is not
// valid, or if a field has no mounted server.
func PingServers(ctx context.Context, opts Options, fields []string, wait time.Duration) (out []Pinged, err error) {
	opts.RetryFailed = true
	e, err := engine.NewMode(ctx, engine.Options(opts), engine.Mode{Unstarted: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var mounted []string
	urls := make(map[string]string)
	for _, p := range e.Current().Plugins {
		if p.Mounted {
			mounted = append(mounted, p.Name)
			urls[p.Name], _ = p.Server()
		}
	}
	for _, name := range fields {
		if _, ok := urls[name]; !ok {
			if len(mounted) == 0 {
				return nil, fmt.Errorf("field %q has no mounted server, and no other field has one; add an mcp block to it", name)
			}
			return nil, fmt.Errorf("field %q has no mounted server; these have one: %q%s", name, mounted, suggest.DidYouMean(name, mounted))
		}
	}
	if len(fields) == 0 {
		fields = mounted
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, tool.Errorf(tool.Timeout, "The server did not answer within %s (--wait).", wait))
	defer cancel()
	out = make([]Pinged, len(fields))
	var all sync.WaitGroup
	for i, name := range fields {
		all.Go(func() {
			out[i] = Pinged{Field: name, URL: shownURL(urls[name])}
			var err error
			if out[i].Server, err = e.Ping(ctx, name); err != nil {
				if cause := context.Cause(ctx); ctx.Err() != nil {
					err = cause
				}
				out[i].Error = tool.AsError(err)
				out[i].Next = nextStep(name, out[i].Error.Message)
			}
		})
	}
	all.Wait()
	return out, nil
}

// shownURL returns a URL without its user and its query, because they can contain a secret.
func shownURL(server string) string {
	u, err := url.Parse(server)
	if err != nil || server == "" {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// nextStep returns the command with which a person can correct the error of a field.
func nextStep(field, message string) string {
	if command := principal.LoginCommand(message); command != "" {
		return command
	}
	return "toolhost plugin logs " + field
}
