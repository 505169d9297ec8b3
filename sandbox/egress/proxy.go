// Package egress implements a proxy for sandboxes without network access. The proxy runs in the host and connects only
// to the hosts that the operator lists.
package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/sandbox/hostlist"
)

const (
	// dialTimeout limits the time to connect to one address. lookupTimeout limits the time to look up a name.
	dialTimeout   = 10 * time.Second
	lookupTimeout = 10 * time.Second
	// headerTimeout is the time within which a client must send its request.
	headerTimeout = 30 * time.Second
	// maxConnections limits the open connections of one sandbox, including idle connections. Without the limit, a
	// sandbox could use up the file descriptors of the host. The proxy closes further connections.
	maxConnections = 512
)

// DenialError describes a denied connection.
type DenialError struct {
	At time.Time
	// Target is the host and port in the request.
	Target string
	// Why is the reason for the denial, as a clause. Entry is an entry for the operator's list that permits the
	// connection.
	Why, Entry string
}

func (d *DenialError) Error() string { return d.Target + ": " + d.Why }

// Proxy is an HTTP proxy. It forwards HTTP requests and, for the method CONNECT, any TCP connection. It resolves host
// names and then connects only to the checked addresses.
type Proxy struct {
	// Name begins the messages to clients, so that people see who refused a connection.
	Name  string
	Hosts *hostlist.List
	// Denied is called for each denied connection. Several goroutines can call it. It must return quickly.
	Denied func(DenialError)
	// Advice returns additional text for the response to a denied request.
	Advice func(DenialError) string
	// Log receives errors. It can be nil.
	Log *slog.Logger
	// Resolve returns the addresses of a name. A nil Resolve uses the resolver of the system.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Serve serves the clients of a listener in the background. The caller must call stop to close the listener and all
// connections.
func (p *Proxy) Serve(l net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, address) },
		// Clients of a proxy use HTTP/1.1 for plain HTTP.
		DisableCompression: true, MaxIdleConns: 16, IdleConnTimeout: time.Minute,
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, err) },
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s := &http.Server{
		ReadHeaderTimeout: headerTimeout, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodConnect:
				p.tunnel(ctx, w, r)
			case r.URL.Scheme == "http" && r.URL.Host != "":
				// A server can answer before it has read the whole request. Otherwise, net/http would then close the
				// body of the request, and the answer would end early.
				_ = http.NewResponseController(w).EnableFullDuplex()
				forward.ServeHTTP(w, r)
			default:
				http.Error(w, p.Name+": this server is a proxy; use http, or CONNECT for other protocols over TCP", http.StatusBadRequest)
			}
		}),
	}
	go func() {
		if err := s.Serve(&limitedListener{Listener: l}); !errors.Is(err, http.ErrServerClosed) && p.Log != nil &&
			ctx.Err() == nil {
			p.Log.Warn("the proxy of a sandbox ended", "error", err)
		}
	}()
	return func() {
		cancel()
		_ = s.Close()
		transport.CloseIdleConnections()
	}
}

// fail answers a request after a failed connection.
func (p *Proxy) fail(w http.ResponseWriter, err error) {
	var d *DenialError
	if !errors.As(err, &d) {
		http.Error(w, fmt.Sprintf("%s: %v", p.Name, err), http.StatusBadGateway)
		return
	}
	text := p.Name + ": the sandbox does not allow a connection to " + d.Error() + "."
	if p.Advice != nil {
		text += " " + p.Advice(*d)
	}
	http.Error(w, text, http.StatusForbidden)
}

// tunnel connects a client to the host in the request.
func (p *Proxy) tunnel(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	there, err := p.dial(r.Context(), r.Host)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer there.Close() //nolint:errcheck // nothing to be done about it
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, p.Name+": the connection cannot be tunneled", http.StatusInternalServerError)
		return
	}
	here, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer here.Close() //nolint:errcheck // as above
	defer context.AfterFunc(ctx, func() { _, _ = here.Close(), there.Close() })()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(there, first(buffered.Reader, here))
	}()
	pass(here, there)
	<-done
}

// first returns a reader for the buffered bytes and then the rest of the connection.
func first(ahead *bufio.Reader, rest net.Conn) io.Reader {
	n := ahead.Buffered()
	if n == 0 {
		return rest
	}
	return io.MultiReader(io.LimitReader(ahead, int64(n)), rest)
}

// pass copies data until the source ends. Then it closes the destination for writing.
func pass(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

// dial connects to a host and port. If the proxy must not connect, the error is a [*DenialError].
func (p *Proxy) dial(ctx context.Context, target string) (net.Conn, error) {
	addresses, err := p.judge(ctx, target)
	if err != nil {
		var d *DenialError
		if errors.As(err, &d) && p.Denied != nil {
			p.Denied(*d)
		}
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	var errs []error
	for _, a := range addresses {
		c, err := dialer.DialContext(ctx, "tcp", a.String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// judge returns the addresses of a target that the proxy is allowed to use.
func (p *Proxy) judge(ctx context.Context, target string) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("%q is not a host and port, such as example.org:443", target)
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("%q is not a host and port, such as example.org:443", target)
	}
	port := uint16(n)
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	denied := func(why, entry string) error {
		return &DenialError{
			At: time.Now(), Target: net.JoinHostPort(host, portText), Why: why, Entry: hostlist.EntryFor(entry, port),
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.WithZone("").Unmap()
		if p.Hosts.NamesAddress(a, port) || p.Hosts.AllowsAny(port) && hostlist.Public(a) && !own(a) {
			return []netip.AddrPort{netip.AddrPortFrom(a, port)}, nil
		}
		return nil, denied("the host is not listed", a.String())
	}
	if !p.Hosts.AllowsName(host, port) {
		return nil, denied("the host is not listed", host)
	}
	found, err := p.resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("the name %s cannot be looked up: %w", host, err)
	}
	var out []netip.AddrPort
	for _, a := range found {
		if a = a.WithZone("").Unmap(); p.Hosts.NamesAddress(a, port) || hostlist.Public(a) && !own(a) {
			out = append(out, netip.AddrPortFrom(a, port))
		}
	}
	if len(out) == 0 && len(found) > 0 {
		a := found[0].WithZone("").Unmap()
		return nil, denied(fmt.Sprintf("the address %s is not public and not listed", a), a.String())
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the name %s has no address", host)
	}
	return out, nil
}

func (p *Proxy) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if p.Resolve != nil {
		return p.Resolve(ctx, name)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// own reports whether an address belongs to this machine. A sandbox must not reach the services of this
// machine. If the addresses of the machine are unknown, the function returns true.
func own(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(i net.Addr) bool {
		n, ok := i.(*net.IPNet)
		if !ok {
			return false
		}
		b, ok := netip.AddrFromSlice(n.IP)
		return ok && b.Unmap() == a
	})
}
