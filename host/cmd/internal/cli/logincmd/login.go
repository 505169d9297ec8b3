// Package logincmd implements the commands that log in at the remote servers of mounts, and that check mounted servers.
package logincmd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/mcp/authorize"
)

// Commands returns the subcommands of "toolhost mcp".
func Commands(s *globals.Settings) []*cobra.Command {
	return []*cobra.Command{newLogin(s), newLogout(s), newStatus(s), newPing(s)}
}

type loginFlags struct {
	scopes    []string
	added     []string
	clientID  string
	secretEnv string
	port      int
	noBrowser bool
	wait      time.Duration
}

func newLogin(s *globals.Settings) *cobra.Command {
	var f loginFlags
	c := &cobra.Command{
		Use:   "login FIELD",
		Short: "Log in to a field's remote MCP server",
		Long: `Log in to a field's remote MCP server (OAuth 2.1). The program finds the authorization server,
registers itself there, opens the browser and waits for the answer. The login is kept in the state
directory, renewed before it expires, and used by running hosts within seconds. The process that
connects to the server gets only the access token.

The block oauth { scopes, client_id, client_secret } of the field's mcp block has the same settings
as the flags, which take precedence.`,
		Example: "toolhost mcp login github\ntoolhost mcp login github --scope repo:read --no-browser",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c.Context(), s, args[0]) },
	}
	c.Flags().StringSliceVar(&f.scopes, "scope", nil, "`scope` to request, instead of those that the server names; can be repeated")
	c.Flags().StringSliceVar(&f.added, "add-scope", nil, "`scope` to request besides those of the login so far; can be repeated")
	c.Flags().StringVar(&f.clientID, "client-id", "", "`id` of a client that you registered, or the https URL of its metadata document, if programs cannot register themselves")
	c.Flags().StringVar(&f.secretEnv, "client-secret-env", "", "environment `variable` with the secret of this client")
	c.Flags().IntVar(&f.port, "port", 0, "local `port` to which the browser returns, if the client is registered with one (default any)")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the page instead of opening a browser")
	c.Flags().DurationVar(&f.wait, "wait", 5*time.Minute, "how long to wait for the answer in the browser")
	return c
}

func (f *loginFlags) run(ctx context.Context, s *globals.Settings, field string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.wait, fmt.Errorf("no answer within %v; try again, or give more time with --wait", f.wait))
	defer cancel()
	l, err := f.login(ctx, s, field, func(page string) { f.show(s.Stdio, page) })
	switch {
	case errors.Is(err, authorize.ErrNotNeeded):
		fmt.Fprintf(s.Out, "The server of field %s needs no login.\n", field)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(s.Out, "Logged in at %s for field %s: %s. Running hosts use the login within seconds.\n", l.Resource, field, validity(l))
	return nil
}

// Login logs in at the remote server of a field, like the command "toolhost mcp login". It requests the scopes of the
// current login and the scopes in added. It calls show with the address of the login page, and returns when the login
// is saved.
func Login(ctx context.Context, s *globals.Settings, field string, added []string, show func(page string)) error {
	_, err := (&loginFlags{added: added}).login(ctx, s, field, show)
	if errors.Is(err, authorize.ErrNotNeeded) { // somebody has logged in meanwhile
		return nil
	}
	return err
}

// login logs in and saves the login. It returns [authorize.ErrNotNeeded] if the server needs no login.
func (f *loginFlags) login(ctx context.Context, s *globals.Settings, field string,
	show func(page string)) (*admin.Login, error) {
	server, err := admin.FindRemoteServer(s.Options(), field)
	if err != nil {
		return nil, err
	}
	if server.Header {
		return nil, fmt.Errorf("the mcp block of field %q sends its own header Authorization; remove the header to use a login", field)
	}
	secret, err := f.client(s.Stdio, server)
	if err != nil {
		return nil, err
	}
	if err := f.extend(server); err != nil {
		return nil, err
	}
	got, err := authorize.Login(ctx, authorize.Options{
		Resource: server.URL, Client: admin.LoginClient(server.URL), Show: show, Scopes: f.scopes, AddScopes: f.added,
		ClientID: f.clientID, ClientSecret: secret, Port: f.port,
	})
	switch {
	case errors.Is(err, authorize.ErrNotNeeded):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot log in at %s: %s", server.URL, shown(err))
	}
	l := &admin.Login{
		Resource: server.URL, Issuer: got.Issuer, ClientID: got.ClientID, ClientSecret: got.ClientSecret,
		TokenURL: got.TokenURL, AuthStyle: got.AuthStyle,
		RevokeURL: got.RevokeURL, Scopes: got.Scopes, Access: got.Token.AccessToken, Refresh: got.Token.RefreshToken,
		Obtained: time.Now(), Expiry: got.Token.Expiry,
	}
	return l, admin.SaveLogin(s.Options(), l)
}

// client sets the scopes and the client id from the configuration if the flags do not set them. It returns the secret
// of the client.
func (f *loginFlags) client(s process.Stdio, server *admin.RemoteServer) (secret string, err error) {
	o := server.OAuth
	if f.scopes == nil {
		f.scopes = o.Scopes
	}
	switch {
	case f.secretEnv != "":
		if secret = s.Getenv(f.secretEnv); secret == "" || f.clientID == "" {
			return "", fmt.Errorf("--client-secret-env needs --client-id and a value in the variable %s", f.secretEnv)
		}
	case f.clientID == "" && o.ClientID != "":
		f.clientID = o.ClientID
		if o.ClientSecret == "" {
			return "", nil
		}
		if secret = s.Getenv(o.ClientSecret); secret == "" {
			return "", fmt.Errorf("the environment variable that client_secret of field %q names is not set; set it for this command, or log in with --client-id and --client-secret-env", server.Field)
		}
	}
	return secret, nil
}

// extend adds the scopes of the current login to the requested scopes. It returns an error if the current login already
// has all requested scopes. Without this error, a server that accepts no login could request a new login again and
// again.
func (f *loginFlags) extend(server *admin.RemoteServer) error {
	if len(f.added) == 0 || server.Login == nil {
		return nil
	}
	had := server.Login.Scopes
	if !slices.ContainsFunc(f.added, func(s string) bool { return !slices.Contains(had, s) }) {
		return fmt.Errorf("the login of field %q has requested these scopes already, so another login would not help: ask the operator of %s, or log in as somebody else without --add-scope", server.Field, server.URL)
	}
	f.added = append(f.added, had...)
	return nil
}

// show shows the page of the authorization server to the user.
func (f *loginFlags) show(s process.Stdio, page string) {
	fmt.Fprintf(s.Err, "Log in on this page, and then return here:\n\n  %s\n\n", page)
	if f.noBrowser || !screen.IsTerminal(s.Err) {
		return
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	_ = exec.Command(program, page).Start() //nolint:gosec // the page is an http URL; the error is ignored, because the user sees the address
}

// shown returns the text of an error for printing. It shortens the text and replaces control characters, because the
// text can contain an answer of a server.
func shown(err error) string {
	const most = 500
	text := []rune(screen.Clean(err.Error()))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}

// validity describes how long a login is valid.
func validity(l *admin.Login) string {
	switch {
	case l.Refresh != "":
		return "renewed automatically"
	case l.Expiry.IsZero():
		return "without an end"
	case time.Now().After(l.Expiry):
		return "expired at " + l.Expiry.Local().Format(time.DateTime) + "; log in again"
	}
	return "valid until " + l.Expiry.Local().Format(time.DateTime) + ", and not renewed"
}

func newLogout(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "logout FIELD",
		Short: "Revoke the login of a field",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			server, err := admin.FindRemoteServer(s.Options(), args[0])
			if err != nil {
				return err
			}
			removed, revoked, err := admin.RemoveLogin(c.Context(), s.Options(), server)
			if err != nil {
				return err
			}
			if !removed {
				fmt.Fprintf(s.Out, "Field %s has no login.\n", args[0])
				return nil
			}
			fmt.Fprintf(s.Out, "The login of field %s is removed.\n", args[0])
			if revoked != nil {
				fmt.Fprintf(s.Err, "warning: the tokens could not be revoked: %s. They stay valid until they expire, or until you revoke them on the site of %s.\n", shown(revoked), server.URL)
			}
			return nil
		},
	}
}

// status is one line of the output of "toolhost mcp status".
type status struct {
	Field  string    `json:"field"`
	URL    string    `json:"url"`
	State  string    `json:"state"`
	Issuer string    `json:"issuer,omitempty"`
	Scopes []string  `json:"scopes,omitempty"`
	Expiry time.Time `json:"expires,omitzero"`
}

func newStatus(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List remote MCP servers and their logins",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			servers, err := admin.RemoteServers(s.Options())
			if err != nil {
				return err
			}
			list := make([]status, 0, len(servers))
			for i := range servers {
				list = append(list, describe(&servers[i]))
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, list)
			}
			if len(list) == 0 {
				fmt.Fprintln(s.Out, "No field has a remote server. Add one:\nfield \"NAME\" {\n  mcp { url = \"https://…\" }\n}")
				return nil
			}
			w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "FIELD\tSERVER\tLOGIN\tISSUER\tSCOPES")
			for _, e := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Field, e.URL, e.State, e.Issuer, strings.Join(e.Scopes, " "))
			}
			return w.Flush()
		},
	}
}

func describe(r *admin.RemoteServer) status {
	out := status{Field: r.Field, URL: r.URL, State: "none"}
	switch {
	case r.Header:
		out.State = "header of the configuration"
	case r.Err != nil:
		out.State = r.Err.Error()
	case r.Login != nil:
		out.State, out.Issuer, out.Expiry = validity(r.Login), screen.Clean(r.Login.Issuer), r.Login.Expiry
		for _, s := range r.Login.Scopes {
			out.Scopes = append(out.Scopes, screen.Clean(s))
		}
	}
	return out
}
