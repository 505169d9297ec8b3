package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sandbox/hostlist"
)

func TestJudge(t *testing.T) {
	names := map[string][]string{"good.example": {"8.8.8.8"}, "rebound.example": {"127.0.0.1"}, "mixed.example": {"10.0.0.1", "8.8.4.4"}, "intra.example": {"10.1.2.3"}, "mapped.example": {"::ffff:192.168.0.1"}, "empty.example": nil}
	rules, err := hostlist.Parse([]string{"*.example", "10.1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Hosts: rules, Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		all, ok := names[name]
		if !ok {
			return nil, errors.New("no such name")
		}
		var out []netip.Addr
		for _, a := range all {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}}
	for target, want := range map[string]string{
		"good.example:443": "8.8.8.8:443", "GOOD.example.:443": "8.8.8.8:443", "mixed.example:80": "8.8.4.4:80", "intra.example:80": "10.1.2.3:80", "10.1.2.3:80": "10.1.2.3:80",
		"rebound.example:80": "the address 127.0.0.1 is not public", "mapped.example:80": "the address 192.168.0.1 is not",
		"other.org:80": "other.org:80: the host is not listed", "8.8.8.8:443": "the host is not listed", "good.example:22": "the host is not listed", "[::ffff:127.0.0.1]:80": "the host is not listed",
		"nowhere.example:80": "cannot be looked up", "empty.example:80": "has no address", "good.example": "is not a host and port", "good.example:http": "is not a host and port", ":80": "is not a host and port",
	} {
		got, err := p.judge(t.Context(), target)
		text := fmt.Sprint(err)
		if len(got) == 1 {
			text = got[0].String()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", target, text, want)
		}
	}
	anything, err := hostlist.Parse([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	p.Hosts = anything
	for target, ok := range map[string]bool{"8.8.8.8:443": true, "good.example:443": true, "rebound.example:443": false, "127.0.0.1:443": false, "169.254.169.254:80": false, "8.8.8.8:22": false} {
		if _, err := p.judge(t.Context(), target); (err == nil) != ok {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestOwnAddresses checks that the proxy does not connect to the public addresses of this machine.
func TestOwnAddresses(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if n, ok := i.(*net.IPNet); ok {
			a, _ := netip.AddrFromSlice(n.IP)
			if !own(a.Unmap()) {
				t.Errorf("%s is taken for another machine's", a)
			}
		}
	}
	if own(netip.MustParseAddr("8.8.8.8")) {
		t.Error("8.8.8.8 is taken for this machine's")
	}
}

func TestProxy(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, body, r.Header.Get("X-Forwarded-For"))
	})
	plain, secret := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secret.Close()
	rules, err := hostlist.Parse([]string{plain.Listener.Addr().String(), secret.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var denied []string
	p := &Proxy{Hosts: rules, Advice: func(d DenialError) string { return "add " + d.Entry }, Denied: func(d DenialError) {
		mu.Lock()
		defer mu.Unlock()
		denied = append(denied, d.Target)
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := p.Serve(l)
	defer stop()
	transport := secret.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	post := func(address string) (int, string, error) {
		r, err := client.Post(address, "text/plain", strings.NewReader("text"))
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return r.StatusCode, string(b), err
	}
	for _, s := range []*httptest.Server{plain, secret} {
		if code, body, err := post(s.URL); code != 200 || body != "POST "+s.Listener.Addr().String()+" text " || err != nil {
			t.Errorf("%s: %d %q %v", s.URL, code, body, err)
		}
	}
	if code, body, err := post("http://other.example/"); code != 403 || !strings.Contains(body, "other.example:80: the host is not listed. add other.example") || err != nil {
		t.Errorf("%d %q %v", code, body, err)
	}
	if _, _, err := post("https://other.example:8443/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a tunnel to a host that is not listed: %v", err)
	}
	if want := []string{"other.example:80", "other.example:8443"}; !slices.Equal(denied, want) {
		t.Errorf("told of %v, want %v", denied, want)
	}

	// The end of the sandbox must close an idle tunnel.
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := secret.Listener.Addr().String()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); !strings.Contains(line, "200") || err != nil {
		t.Fatalf("%q %v", line, err)
	}
	stop()
	if _, err := io.Copy(io.Discard, in); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// TestAnswerBeforeTheRequestEnds checks that a client gets the head of an answer while it sends its request, and then
// the rest.
func TestAnswerBeforeTheRequestEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.EnableFullDuplex(), control.Flush()); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	rules, err := hostlist.Parse([]string{server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Hosts: rules}
	defer p.Serve(l)()
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	body, late := io.Pipe()
	defer context.AfterFunc(ctx, func() { late.CloseWithError(ctx.Err()) })() // RoundTrip waits for the body
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.WriteString(late, "late"); err != nil {
		t.Error(err)
	}
	late.Close()
	if got, err := io.ReadAll(answer.Body); string(got) != "late" || err != nil {
		t.Errorf("%q %v, want %q", got, err, "late")
	}
}

// TestConnectionsAreBounded checks the limit on the number of connections, including idle connections and tunnels.
func TestConnectionsAreBounded(t *testing.T) {
	there, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	at := there.Addr().String()
	rules, err := hostlist.Parse([]string{at})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer (&Proxy{Hosts: rules}).Serve(l)()
	answers := func(c net.Conn) bool {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.Contains(line, "200")
	}
	connect := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var open []net.Conn
	for i := range maxConnections {
		c := connect()
		defer c.Close()
		if open = append(open, c); i%100 == 0 && !answers(c) {
			t.Fatal("no tunnel")
		}
	}
	over := connect()
	defer over.Close()
	if answers(over) {
		t.Error("there are more connections than may be")
	}
	for _, c := range open {
		c.Close()
	}
	for range 200 { // the proxy needs some time to notice the closed connections
		c := connect()
		ok := answers(c)
		c.Close()
		if ok {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the places of what was closed are not free again")
}
