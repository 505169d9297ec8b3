package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/api"
	"toolhost.dev/host/cmd/internal/cli/fleetcmd"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/mcp"
)

// tokenEnv and approverEnv are environment variables that contain the tokens for "toolhost serve". Command-line
// arguments are not used for tokens, because process lists show them.
const (
	tokenEnv    = "TOOLHOST_TOKEN"
	approverEnv = "TOOLHOST_APPROVER_TOKEN"
)

type serveFlags struct {
	settings  *globals.Settings
	listen    string
	tokenFile string
	// approverFile is the file of the token for answers.
	approverFile string
	allow        []string
	noAuth       bool
	cert, key    string
	hosts        []string
	takeOver     bool
	activated    bool // whether a service manager has passed the socket, which it keeps open
	browse       bool // whether to show a link to the console
	fleet        fleetcmd.NodeFlags
	mcp          mcp.Options
}

func newServe(s *globals.Settings) *cobra.Command {
	f := serveFlags{settings: s}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a JSON API and MCP over HTTP",
		Long: `Serve calls over HTTP until it is interrupted: MCP at /mcp, a JSON API at /v1 (run, batch,
tools, status, stats, asks, log and more), /metrics, /healthz, /readyz, and a web console at /.

Clients send a token, "Authorization: Bearer TOKEN". The token of $TOOLHOST_TOKEN or --token-file runs
tools in the workspace, and in directories that --allow-workspace names. A token file that does not exist is
made, with a new token that only the user can read. One that other users or tools can access is
refused. Other clients are principals: "toolhost token create" makes their tokens, and principal and issuer blocks of the
configuration say what each may do. If there is none of these, a token is made and printed. --no-auth lets
anybody on this machine run tools in the workspace. Any other address than a loopback address needs a token
and TLS. On a Unix socket (--listen unix:PATH) a client without a token is known by its user.

A permission that a call of the API asks for waits in /v1/asks until another principal answers: one with
the token of $TOOLHOST_APPROVER_TOKEN or --approver-token-file, or with the right "answer". MCP clients with
the token of the server ask their user.

SIGTERM refuses new calls and lets the running ones end. To restart without a refused call, start the new
server with --take-over, or let systemd open the socket (LISTEN_FDS).`,
		Example: `  toolhost serve --listen 127.0.0.1:7070
  curl -H "Authorization: Bearer $TOKEN" -d '{"command":"read go.mod"}' http://127.0.0.1:7070/v1/run
  toolhost serve --listen unix:$XDG_RUNTIME_DIR/toolhost.sock`,
		Args: f.fleet.Arguments,
		PreRunE: func(*cobra.Command, []string) error {
			if f.takeOver && f.fleet.On() {
				return errors.New("--take-over is not for a node of a fleet, because a state directory has one node at a time. To restart nodes without a refused call: toolhost fleet upgrade")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { s.LogTime = true; return f.run(c, s) },
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7070", "`address` to listen on; port 0 means any free port, and unix:PATH a Unix socket")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token; it is made if it does not exist")
	c.Flags().StringVar(&f.approverFile, "approver-token-file", "", "`file` that holds the token that answers asks; it is made if it does not exist")
	c.Flags().StringArrayVar(&f.allow, "allow-workspace", nil, "further `directory` in which calls with the server's token may run; DIR/*: each directory directly inside DIR")
	c.Flags().BoolVar(&f.noAuth, "no-auth", false, "let anybody on this machine run tools in the workspace, without a token")
	c.Flags().StringVar(&f.cert, "tls-cert", "", "`file` with the certificate, in PEM")
	c.Flags().StringVar(&f.key, "tls-key", "", "`file` with its key, in PEM")
	c.Flags().StringSliceVar(&f.hosts, "host", nil, "further `names` that clients call the server by (default: those of this machine and the address)")
	c.Flags().BoolVar(&f.takeOver, "take-over", false, "take over the socket of the server that listens on the address, which then ends")
	f.fleet.Add(c)
	s.TapeFlag(c)
	mcpFlags(c, &f.mcp)
	return c
}

func (f *serveFlags) run(c *cobra.Command, s *globals.Settings) error {
	token, approver, err := f.tokens()
	if err != nil {
		return err
	}
	var listener net.Listener
	if !f.takeOver {
		if listener, err = f.listener(c.Context()); err != nil {
			return err
		}
		defer listener.Close() //nolint:errcheck // Shutdown has closed it
	}
	h, err := f.open(c, s, &token, &approver)
	if err != nil {
		return err
	}
	clients, made, err := f.clients(h, s, token, approver)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	leave, err := f.fleet.Start(c.Context(), s, h)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	defer leave()
	mine, serving := f.termsOf(h, clients), func() {}
	if f.takeOver {
		taken, err := f.taken(c.Context(), h, mine)
		if err != nil {
			return errors.Join(err, h.Close())
		}
		listener, serving = taken.Listener, taken.Serving
		defer listener.Close() //nolint:errcheck // Shutdown has closed it
	}
	asks := api.NewAsks(f.askTimeout())
	f.mcp.Approver, f.mcp.Sessions = asks.Client, f.fleet.Sessions()
	server, err := newMCPServer(h, s, f.mcp)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	endpoints := mcp.NewEndpoints(h, mcpOptions(s, f.mcp))
	ctx, cancel := context.WithCancelCause(c.Context()) // canceled to cancel the running calls
	defer cancel(nil)
	leaving := new(leaving)
	pages, log := f.console(s, clients)
	web := newWeb(ctx, log, leaving.handler(api.Handler(h, api.Options{
		Clients: clients, Request: s.Request(), Asks: asks, Hosts: f.names(listener), Log: log, Console: pages.Handler,
		Doctor: func() (any, error) { return admin.Diagnose(s.Options()) }, Trust: pinner{s},
		MCP: mcp.Authenticated(server.Handler(), principalOf), Endpoints: endpoints.Handler(principalOf),
	})))
	f.offerConsole(c.Context(), h, listener, pages)
	f.announce(listener, made)
	served := make(chan error, 1)
	go func() { served <- f.serve(web, listener) }()
	replaced := f.offer(h, listener, mine)
	serving()
	return f.untilEnd(c.Context(), h, listener, served, replaced, leaving, func() error {
		return stop(web, server, endpoints, func() { cancel(host.ErrStopped) }, leave)
	})
}

// principalOf returns the principal of an authenticated request.
func principalOf(r *http.Request) *host.Principal { return api.Principal(r.Context()) }

// open starts the host, unless tools could reach a token or a key of the server. Then it reads the tokens in files.
func (f *serveFlags) open(c *cobra.Command, s *globals.Settings, token, approver *string) (*host.Host, error) {
	secrets, err := f.secrets()
	if err != nil {
		return nil, err
	}
	workspaces, err := f.allowed()
	if err != nil {
		return nil, err
	}
	h, err := s.OpenLive(c, host.Options{Prompt: true, Secrets: secrets, Workspaces: workspaces})
	if err != nil {
		return nil, err
	}
	err = f.readToken("--token-file", secrets, token)
	if err == nil {
		err = f.readToken("--approver-token-file", secrets, approver)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// newWeb returns the web server. The contexts of its requests end with ctx.
func newWeb(ctx context.Context, log *slog.Logger, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: host.ConnContext,
	}
}

// pinner pins and approves plugins for the principals of the server.
type pinner struct{ s *globals.Settings }

// Pin implements [api.Trust].
func (p pinner) Pin(ctx context.Context, by *host.Principal, plugin string, acceptChanges bool) error {
	_, err := admin.PinPlugins(admin.For(ctx, by.Name), p.s.Inspection(), []string{plugin}, acceptChanges)
	return err
}

// Approve implements [api.Trust].
func (p pinner) Approve(ctx context.Context, by *host.Principal, plugin string) error {
	_, err := admin.ApprovePlugins(admin.For(ctx, by.Name), p.s.Options(), []string{plugin})
	return err
}

// serve serves the connections of a listener. It uses TLS if the flags name a certificate.
func (f *serveFlags) serve(web *http.Server, l net.Listener) error {
	if f.cert != "" {
		return web.ServeTLS(l, f.settings.Path(f.cert), f.settings.Path(f.key))
	}
	return web.Serve(l)
}

// untilEnd waits until the server is stopped, is replaced, or fails. Then it stops the server and closes the host.
func (f *serveFlags) untilEnd(ctx context.Context, h *host.Host, listener net.Listener, served <-chan error,
	replaced <-chan struct{}, leaving *leaving, stop func() error) (err error) {
	notify(f.settings.Stdio, "READY=1")
	select {
	case err = <-served:
	case <-replaced:
		leaving.yield(ctx, f.settings.Err, h, listener)
		err = stop()
	case <-f.settings.Signals.Terminated():
		notify(f.settings.Stdio, "STOPPING=1")
		if f.activated {
			leaving.yield(ctx, f.settings.Err, h, listener)
		} else {
			h.Drain(ctx)
		}
		err = stop()
	case <-ctx.Done():
		err = stop()
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

func (f *serveFlags) askTimeout() time.Duration {
	return cmp.Or(max(f.mcp.AskTimeout, 0), 10*time.Minute)
}

// made contains the tokens that the server created.
type made struct{ token, approver string }

// clients returns the clients that the server accepts. If no client could authenticate otherwise, it creates tokens.
func (f *serveFlags) clients(h *host.Host, s *globals.Settings, token, approver string) (*host.Directory, made, error) {
	d := h.Directory()
	d.Anonymous = f.noAuth
	var out made
	if token == "" && !f.noAuth && !strings.HasPrefix(f.listen, "unix:") {
		others, err := admin.HasPrincipals(s.Options())
		if err != nil {
			return nil, out, err
		}
		if !others {
			token = rand.Text()
			out.token = token
			if approver == "" {
				approver = rand.Text()
				out.approver = approver
			}
		}
	}
	if token != "" && token == approver {
		return nil, out, fmt.Errorf("$%s and the token of the server are the same: use two tokens, because a caller must not answer its own asks", approverEnv)
	}
	if token != "" {
		allowed, err := f.allowed()
		if err != nil {
			return nil, out, err
		}
		d.Secrets = append(d.Secrets, host.Secret{
			Token: token, Principal: host.StartToken(append([]string{h.Status().Workspace}, allowed...)...),
		})
	}
	if approver != "" {
		d.Secrets = append(d.Secrets, host.Secret{Token: approver, Principal: host.ApproverToken()})
	}
	return d, out, nil
}

// allowed returns the absolute paths of the further workspaces.
func (f *serveFlags) allowed() ([]string, error) {
	var out []string
	for _, dir := range f.allow {
		abs, err := filepath.Abs(f.settings.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("--allow-workspace: %w", err)
		}
		out = append(out, abs)
	}
	return out, nil
}

// announce prints the address of the server and the tokens that the server created.
func (f *serveFlags) announce(l net.Listener, made made) {
	switch _, socket := l.(*net.UnixListener); {
	case socket:
		fmt.Fprintf(f.settings.Err, "toolhost: listening on %s\n", f.listen)
	case f.cert != "":
		fmt.Fprintf(f.settings.Err, "toolhost: listening on https://%s\n", l.Addr())
	default:
		fmt.Fprintf(f.settings.Err, "toolhost: listening on http://%s\n", l.Addr())
	}
	if made.token != "" {
		fmt.Fprintf(f.settings.Err, "toolhost: token %s (set $%s or --token-file to keep a token)\n", made.token, tokenEnv)
	}
	if made.approver != "" {
		fmt.Fprintf(f.settings.Err, "toolhost: approver token %s (answers asks in /v1/asks; set $%s or --approver-token-file to keep a token)\n", made.approver, approverEnv)
	}
}

// tokens returns the server's token and the token for answers from the environment. It returns "" for a token that is
// missing.
func (f *serveFlags) tokens() (token, approver string, err error) {
	s := f.settings
	token, approver = s.Getenv(tokenEnv), s.Getenv(approverEnv)
	// Remove the tokens from the environment, because commands must not inherit them.
	s.Unsetenv(tokenEnv)
	s.Unsetenv(approverEnv)
	if f.noAuth && (token != "" || f.tokenFile != "") {
		return "", "", errors.New("a token and --no-auth exclude each other: unset $" + tokenEnv + " and omit --token-file, or omit --no-auth")
	}
	return token, approver, nil
}

// readToken replaces a token by the one in the file of a flag, if it is set. See [admin.TokenFile].
func (f *serveFlags) readToken(flag string, files map[string]string, token *string) error {
	path, set := files[flag]
	if !set {
		return nil
	}
	read, made, err := admin.TokenFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if *token = read; made {
		fmt.Fprintf(f.settings.Err, "toolhost: a new token is in %s\n", screen.Clean(path))
	}
	return nil
}

// secrets returns the files that tools must not reach, by their flags.
func (f *serveFlags) secrets() (map[string]string, error) {
	out := make(map[string]string)
	for flag, name := range map[string]string{"--token-file": f.tokenFile, "--approver-token-file": f.approverFile,
		"--tls-key": f.key, "--fleet-token-file": f.fleet.TokenFile()} {
		if name == "" {
			continue
		}
		path, err := filepath.Abs(f.settings.Path(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		out[flag] = path
	}
	return out, nil
}
