package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/login"
	"toolhost.dev/sdk/suggest"
)

// Login is a login at a remote MCP server.
type Login = login.Login

// RemoteServer is a field that connects to a remote MCP server.
type RemoteServer struct {
	Field string
	URL   string
	// Header reports whether the configuration sends a header Authorization. A login is then not used.
	Header bool
	// OAuth is the login as the configuration describes it.
	OAuth config.OAuth
	// Login is the login at the server. A nil Login means that nobody logged in. Err is the reason why it cannot be read.
	Login *Login
	Err   error
}

// RemoteServers returns the fields of the configuration that connect to remote MCP servers, with their logins. It starts
// no plugin. It returns an error if the configuration is not valid.
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

// FindRemoteServer returns a field that connects to a remote MCP server. Its errors name the fields that do.
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
		return nil, fmt.Errorf("no field has a remote server; add one: field %q { mcp { url = \"https://…\" } }", field)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("field %q has no remote server; these have one: %q%s", field, names, suggest.DidYouMean(field, names))
}

// LoginClient returns an HTTP client for the authorization server of a remote server. It only connects to public
// addresses, unless the server itself is in the user's network.
func LoginClient(server string) *http.Client { return login.Client(server) }

// SaveLogin replaces the login at a remote server. Hosts with the same state directory use it within seconds.
func SaveLogin(opts Options, l *Login) error {
	_, store, err := logins(opts)
	if err != nil {
		return err
	}
	return store.Save(l)
}

// RemoveLogin deletes the login at the server of a field, and asks the authorization server to revoke its tokens. It
// returns false if there was none. The error revoked is the reason why the tokens are not revoked. Running hosts stop using
// the login within seconds.
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
		revoked = login.Revoke(ctx, r.Login)
	}
	return true, revoked, nil
}

func logins(opts Options) (*config.Config, *login.Store, error) {
	cfg, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, nil, err
	}
	return cfg, login.Open(dir), nil
}
