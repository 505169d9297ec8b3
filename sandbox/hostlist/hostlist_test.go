package hostlist

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	r, err := Parse([]string{"Example.org.", "*.github.com:443", "db.example.org:5432", "10.1.0.0/16", "192.168.7.7:8080", "[fd00::1]:*", "localhost:3000", "any.example.net:*"})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{
		"example.org:80": true, "example.org:443": true, "example.org:22": false, "www.example.org:80": false, "notexample.org:80": false,
		"api.github.com:443": true, "a.b.github.com:443": true, "github.com:443": false, "api.github.com:80": false, "evilgithub.com:443": false,
		"db.example.org:5432": true, "db.example.org:443": false, "any.example.net:9": true, "localhost:3000": true, "localhost:80": false,
	} {
		host, port, _ := net.SplitHostPort(target)
		var n uint16
		_, _ = fmt.Sscan(port, &n)
		if got := r.AllowsName(host, n); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	for target, want := range map[string]bool{
		"10.1.2.3:443": true, "10.2.0.1:443": false, "10.1.2.3:22": false, "192.168.7.7:8080": true, "192.168.7.7:443": false,
		"[fd00::1]:9": true, "127.0.0.1:3000": true, "[::1]:3000": true, "127.0.0.2:3000": false,
	} {
		at := netip.MustParseAddrPort(target)
		if got := r.NamesAddress(at.Addr(), at.Port()); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	for _, bad := range []string{"", "https://example.org", "example.org/path", "a b", "example.org:0", "example.org:99999", "*.*.org", "*org", "exa*mple.org", "-", "host:port", "[::1"} {
		if _, err := Parse([]string{bad}); err == nil || !strings.Contains(err.Error(), "is not a host") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, a := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "224.0.0.1", "255.255.255.255", "192.0.2.1"} {
		if Public(netip.MustParseAddr(a).Unmap()) {
			t.Errorf("%s is taken for public", a)
		}
	}
	if !Public(netip.MustParseAddr("8.8.8.8")) || !Public(netip.MustParseAddr("2606:4700::1111")) {
		t.Error("public addresses are taken for private")
	}
}

// TestWideLists checks what a list with a wildcard permits, and which lists reach the machine itself.
func TestWideLists(t *testing.T) {
	for text, want := range map[string]struct{ any, name, loopback bool }{
		"*": {any: true, name: true}, "*:8080": {}, "*:*": {any: true, name: true}, "localhost:1": {loopback: true}, "127.0.0.0/8": {loopback: true}, "[::1]:9": {loopback: true}, "10.0.0.0/8": {},
	} {
		l, err := Parse([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if l.AllowsAny(443) != want.any || l.AllowsName("example.org", 443) != want.name || l.NamesLoopback() != want.loopback {
			t.Errorf("%s: any %t, name %t, loopback %t", text, l.AllowsAny(443), l.AllowsName("example.org", 443), l.NamesLoopback())
		}
	}
	for want, port := range map[string]uint16{"example.org": 443, "example.org:8443": 8443} {
		entry := EntryFor("example.org", port)
		l, err := Parse([]string{entry})
		if entry != want || err != nil || !l.AllowsName("example.org", port) {
			t.Errorf("port %d: %q, %v", port, entry, err)
		}
	}
}
