package principal

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"toolhost.dev/sandbox/hostlist"
)

// loginTimeout limits one request to an issuer.
const loginTimeout = 10 * time.Second

// LoginClient returns an HTTP client for the issuer of a server's tokens. The server names the issuer, so a hostile
// server could name an address inside of the operator's network. Therefore the client connects only to public
// addresses, and only with TLS, unless the server itself is on this machine or in the operator's network.
func LoginClient(resource string) *http.Client {
	private := insideLogins(resource)
	dialer := &net.Dialer{Timeout: loginTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !private && !hostlist.Public(at.Addr().Unmap()) {
			return fmt.Errorf("the address %s is not public, but the server is", at.Addr())
		}
		return nil
	}}
	return &http.Client{
		Timeout: loginTimeout,
		Transport: &Secured{Plain: private,
			Base: &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: true}},
	}
}

// Secured is a transport that refuses requests without TLS, unless Plain is set. It also sees the requests that follow
// a redirect and those for addresses that an answer contained. It is safe for concurrent use.
type Secured struct {
	Plain bool
	Base  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (s *Secured) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !s.Plain {
		return nil, fmt.Errorf("%s is not an https URL", r.URL.Redacted())
	}
	return s.Base.RoundTrip(r)
}

// insideLogins reports whether a server is on this machine or in the operator's network, by its host name.
func insideLogins(resource string) bool {
	u, err := url.Parse(resource)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && !hostlist.Public(a.Unmap())
}
