package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/api"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
	"toolhost.dev/host/mcp"
)

// tokenEnv is the environment variable with the token for the command "serve". A command-line argument would be visible
// in process lists.
const tokenEnv = "TOOLHOST_TOKEN"

type serveFlags struct {
	listen    string
	tokenFile string
	noAuth    bool
	cert, key string
	hosts     []string
	mcp       mcp.Options
}

func newServe(s *cli.Settings) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve calls over HTTP: a JSON API and MCP",
		Long: `Serve calls over HTTP until it is interrupted: MCP at /mcp, a JSON API at /v1 (run, batch,
tools, status, asks), /healthz. Clients show a token, "Authorization: Bearer TOKEN": that of
$TOOLHOST_TOKEN or --token-file, else one that is made and printed. --no-auth does without,
on a loopback address only. Any other address needs a token and TLS.

What calls of the API ask waits in /v1/asks; MCP clients ask their user.`,
		Example: `  toolhost serve --listen 127.0.0.1:7070
  curl -H "Authorization: Bearer $TOKEN" -d '{"command":"read go.mod"}' http://127.0.0.1:7070/v1/run`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, s) },
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7070", "`address` to listen on; port 0: any that is free")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token")
	c.Flags().BoolVar(&f.noAuth, "no-auth", false, "serve anybody on this machine, without a token")
	c.Flags().StringVar(&f.cert, "tls-cert", "", "`file` with the certificate, in PEM")
	c.Flags().StringVar(&f.key, "tls-key", "", "`file` with its key, in PEM")
	c.Flags().StringSliceVar(&f.hosts, "host", nil, "further `names` that clients call the server by (default: those of this machine and the address)")
	mcpFlags(c, &f.mcp)
	return c
}

func (f *serveFlags) run(c *cobra.Command, s *cli.Settings) error {
	token, made, err := f.token()
	if err != nil {
		return err
	}
	listener, err := f.listener(c.Context())
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // Shutdown has closed it
	h, err := s.OpenLive(c, host.Options{Prompt: true})
	if err != nil {
		return err
	}
	server, err := newMCPServer(h, s, f.mcp)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	if name, _, err := net.SplitHostPort(f.listen); err == nil && name != "" && !slices.Contains(hosts, name) {
		hosts = append(hosts, name)
	}
	web := &http.Server{
		Handler:           api.Handler(h, api.Options{Token: token, Request: s.Request(), MCP: server.Handler(), Hosts: hosts, AskTimeout: f.mcp.AskTimeout}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return c.Context() }, // the end of this context cancels the calls
	}
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(os.Stderr, "toolhost: listening on %s://%s\n", scheme, listener.Addr())
	if made {
		fmt.Fprintf(os.Stderr, "toolhost: token %s (set $%s or --token-file for one that lasts)\n", token, tokenEnv)
	}
	served := make(chan error, 1)
	go func() {
		if f.cert != "" {
			served <- web.ServeTLS(listener, f.cert, f.key)
			return
		}
		served <- web.Serve(listener)
	}()
	select {
	case err = <-served:
	case <-c.Context().Done():
		server.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 5*time.Second)
		defer cancel()
		if err = web.Shutdown(ctx); err != nil {
			err = web.Close() // end connections that clients keep open
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

// token returns the token of the server. made reports whether the function generated the token.
func (f *serveFlags) token() (token string, made bool, err error) {
	token = os.Getenv(tokenEnv)
	// Remove the token from the environment, because commands must not inherit it.
	_ = os.Unsetenv(tokenEnv)
	if f.tokenFile != "" {
		b, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", false, fmt.Errorf("--token-file: %w", err)
		}
		if token = strings.TrimSpace(string(b)); token == "" {
			return "", false, fmt.Errorf("--token-file: %s is empty: put a token into it, such as the output of openssl rand -hex 24", f.tokenFile)
		}
	}
	switch {
	case f.noAuth && token != "":
		return "", false, fmt.Errorf("there is a token, and --no-auth: use one of the two")
	case f.noAuth || token != "":
		return token, false, nil
	}
	return rand.Text(), true, nil
}

// listener opens the socket of the server. Without TLS it accepts only loopback addresses.
func (f *serveFlags) listener(ctx context.Context) (net.Listener, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("TLS needs both --tls-cert and --tls-key")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
		switch {
		case f.noAuth:
			err = fmt.Errorf("--no-auth is for a loopback address, and %s is none: anybody who reaches it could run commands here", l.Addr())
		case f.cert == "":
			err = fmt.Errorf("%s is no loopback address: it needs --tls-cert and --tls-key, else the token and all that is read can be listened to", l.Addr())
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
