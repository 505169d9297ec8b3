package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/console"
	"toolhost.dev/host/mcp"
)

// names returns the host names with which clients can address the server.
func (f *serveFlags) names(l net.Listener) []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	if _, ok := l.(*net.UnixListener); ok {
		return append(hosts, "unix", "")
	}
	if name, _, err := net.SplitHostPort(f.listen); err == nil && name != "" && !slices.Contains(hosts, name) {
		hosts = append(hosts, name)
	}
	return hosts
}

// listener opens the socket of the server. Without TLS it accepts only loopback addresses.
func (f *serveFlags) listener(ctx context.Context) (net.Listener, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("TLS needs both --tls-cert and --tls-key")
	}
	l, err := inherited(&f.settings.Stdio)
	if err != nil {
		return nil, err
	}
	if l != nil {
		f.activated = true
		return l, f.check(l)
	}
	if path, ok := strings.CutPrefix(f.listen, "unix:"); ok {
		return f.socket(ctx, f.settings.Path(path))
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--listen: %w. To replace the toolhost server that listens there, add --take-over", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, f.check(l)
}

// check returns an error if the flags are not permitted for the listener, for example if clients could reach it from
// other machines without TLS. Before check returns an error, it closes the listener.
func (f *serveFlags) check(l net.Listener) (err error) {
	if _, socket := l.(*net.UnixListener); socket && (f.noAuth || f.cert != "") {
		err = errSocketClients
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
		switch {
		case f.noAuth:
			err = fmt.Errorf("--no-auth needs a loopback address, and %s is not one: every client on the network could run commands", l.Addr())
		case f.cert == "":
			err = fmt.Errorf("%s is not a loopback address: set --tls-cert and --tls-key, or the token and all results are sent unencrypted", l.Addr())
		}
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// inherited returns the socket that a service manager such as systemd passed. It returns nil if no socket was passed.
func inherited(s *process.Stdio) (net.Listener, error) {
	pid, count := s.Getenv("LISTEN_PID"), s.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		s.Unsetenv(name) // child processes must not use the socket
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil //nolint:nilnil // no socket is no error
	}
	if count != "1" {
		return nil, fmt.Errorf("the service manager passed %s sockets: configure one ListenStream", count)
	}
	syscall.CloseOnExec(firstPassed)
	file := os.NewFile(firstPassed, "LISTEN_FD_3")
	defer file.Close() //nolint:errcheck // FileListener uses a duplicate
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the socket of the service manager cannot be used: %w", err)
	}
	return l, nil
}

// firstPassed is the descriptor of the first socket that a service manager passes.
const firstPassed = 3

// taken acquires the socket of the server that currently listens on the address. It returns an error if
// clients of that server could not use this server.
func (f *serveFlags) taken(ctx context.Context, h *host.Host, mine *terms) (*host.Taken, error) {
	l, err := h.TakeListener(ctx, f.listen)
	if err != nil {
		return nil, fmt.Errorf("--take-over: %w", err)
	}
	var theirs terms
	if err := json.Unmarshal(l.Terms, &theirs); err != nil {
		return nil, errors.Join(fmt.Errorf("--take-over: the other server is of another version: %w", err), l.Return())
	}
	refused, warnings := mine.replacing(&theirs)
	if len(refused) > 0 {
		return nil, errors.Join(fmt.Errorf("--take-over: clients of the running server would be refused or misled: %s. Use the same settings, or stop that server first", strings.Join(refused, "; ")), l.Return())
	}
	for _, w := range warnings {
		fmt.Fprintln(f.settings.Err, "toolhost: --take-over:", screen.Clean(w))
	}
	return l, f.check(l.Listener)
}

// offer lets another server acquire the socket. It returns a channel that is closed when another server
// has acquired the socket.
func (f *serveFlags) offer(h *host.Host, l net.Listener, mine *terms) <-chan struct{} {
	replaced := make(chan struct{})
	text, _ := json.Marshal(mine) // ignore the error: texts and flags can always be encoded
	h.OfferListener(host.Listening{
		Terms:  text,
		Serves: func(address string) bool { return address == f.listen || address == l.Addr().String() },
		File: func() (*os.File, error) {
			if u, ok := l.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false) // keep the socket file, because the other server uses it
			}
			if own, ok := l.(interface{ File() (*os.File, error) }); ok {
				return own.File()
			}
			return nil, fmt.Errorf("the listener %s has no descriptor", l.Addr())
		},
		Replaced: func() { close(replaced) },
	})
	return replaced
}

// If now is true, leaving closes each client connection after the next request, so that the client connects to another
// server.
type leaving struct{ now atomic.Bool }

func (l *leaving) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.now.Load() {
			w.Header().Set("Connection", "close")
			if r.URL.Path == "/readyz" {
				http.Error(w, "another server takes over", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// yield stops accepting connections, because another server now accepts connections from the same socket.
// Then it waits until no more requests arrive on existing connections.
func (l *leaving) yield(ctx context.Context, log io.Writer, h *host.Host, listener net.Listener) {
	if err := h.Share(); err != nil {
		fmt.Fprintln(log, "toolhost: the sessions cannot be saved:", screen.Clean(err.Error()))
	}
	l.now.Store(true)
	_ = listener.Close() // this closes only the descriptor of this process
	h.Yield(ctx)
}

// stop ends a server. Running requests have 2 seconds to end. After that, the function "cancel" cancels the running
// calls, and the requests have 2 more seconds.
func stop(web *http.Server, server *mcp.Server, endpoints *mcp.Endpoints, cancel, leave func()) error {
	server.Close()
	endpoints.Close()
	late := time.AfterFunc(stopGrace, cancel)
	defer late.Stop()
	ctx, done := context.WithTimeout(context.Background(), 2*stopGrace)
	defer done()
	err := web.Shutdown(ctx)
	if err != nil {
		err = web.Close() // close the connections that are still open
	}
	leave()
	return err
}

// stopGrace is the time that running requests have before their calls are canceled. The requests have the same time
// again after the cancellation.
const stopGrace = 2 * time.Second

// errSocketClients is the error for flags that cannot be used with a Unix socket.
var errSocketClients = errors.New("a Unix socket identifies clients by their users: remove --no-auth, --tls-cert and --tls-key")

// socket opens a Unix socket to which every user can connect. The server identifies each client by its user.
func (f *serveFlags) socket(ctx context.Context, path string) (net.Listener, error) {
	if f.noAuth || f.cert != "" {
		return nil, errSocketClients
	}
	// Remove the socket of a killed server. Do not remove other files or sockets that are in use.
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("--listen: another server listens on %s", path), conn.Close())
		}
		_ = os.Remove(path)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // the directory limits who reaches it, and each request is authenticated
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newConsole(s *globals.Settings) *cobra.Command {
	f := serveFlags{settings: s, listen: "127.0.0.1:0", browse: true}
	c := &cobra.Command{
		Use:   "console",
		Short: "Open the web console in the browser",
		Long: `Open the web console of a running "toolhost serve" in the browser, with a link that logs in once.
Without such a server, serve on a loopback address until Ctrl-C. The link is printed as well, for a
browser on another machine or where none can be opened.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			hosts, err := admin.Running(s.Options())
			if err != nil {
				return err
			}
			for _, h := range hosts {
				if url, err := h.Console(c.Context()); err == nil {
					show(c.Context(), s.Stdio, url)
					return nil
				}
			}
			return f.run(c, s)
		},
	}
	mcpFlags(c, &f.mcp)
	return c
}

// offerConsole lets the command "toolhost console" request a link from this server. If that command started this
// server, offerConsole prints a link.
func (f *serveFlags) offerConsole(ctx context.Context, h *host.Host, l net.Listener, pages *console.Console) {
	if _, socket := l.(*net.UnixListener); socket {
		return // a browser cannot open a Unix socket
	}
	base := "http://"
	if f.cert != "" {
		base = "https://"
	}
	base += l.Addr().String()
	h.OfferConsole(func() string { return base + pages.Link() })
	if f.browse {
		show(ctx, f.settings.Stdio, base+pages.Link())
	}
}

// show prints a link to the console, and opens it in the browser if there is a display.
func show(ctx context.Context, s process.Stdio, url string) {
	fmt.Fprintln(s.Out, url)
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case s.Getenv("DISPLAY") == "" && s.Getenv("WAYLAND_DISPLAY") == "":
		return
	}
	c := exec.CommandContext(ctx, program, url) //nolint:gosec // the address is this program's
	_ = c.Start()                               // the error is ignored, because the link was printed
}

// console returns the web console and the log for rejected clients.
func (f *serveFlags) console(s *globals.Settings, clients *host.Directory) (*console.Console, *slog.Logger) {
	log := s.Log(slog.LevelWarn)
	return console.New(console.Options{Authenticate: clients.Authenticate, Issuers: clients, Secure: f.cert != "",
		Fleet: f.fleet.On(), Log: log}), log
}

// notify sends the state of the server to the service manager, as sd_notify(3) does. Without a service manager, it does
// nothing.
func notify(s process.Stdio, state string) {
	socket := s.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if socket[0] == '@' { // an abstract socket
		socket = "\x00" + socket[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		fmt.Fprintln(s.Err, "toolhost: the service manager cannot be notified:", err)
		return
	}
	_, _ = conn.Write([]byte(state)) // ignore the error: the service manager notices the missing message
	_ = conn.Close()
}
