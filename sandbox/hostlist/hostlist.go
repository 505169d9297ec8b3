// Package hostlist parses and matches lists of hosts that a sandbox can reach.
package hostlist

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// List is a list of hosts that a sandbox can reach. The zero value permits no host.
type List struct{ entries []entry }

// entry is one entry of the list. It permits a name, all names that end in a name, or a range of addresses.
// It can restrict the ports.
type entry struct {
	name   string // empty if the entry permits all names or only addresses
	below  bool   // whether the entry permits all names that end in "." and name
	any    bool
	prefix netip.Prefix
	port   uint16 // 0 means ports 80 and 443
	ports  bool   // whether all ports are permitted
}

var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
})

// Parse parses a list such as "proxy.golang.org", "*.github.com:443", "10.0.0.0/8:*" or "*". An entry without a port
// permits the ports 80 and 443.
func Parse(list []string) (*List, error) {
	out := new(List)
	for _, text := range list {
		e, err := parseEntry(text)
		if err != nil {
			return nil, err
		}
		out.entries = append(out.entries, e...)
	}
	return out, nil
}

func parseEntry(text string) ([]entry, error) {
	bad := func(why string) ([]entry, error) {
		return nil, fmt.Errorf("%q is not a host: %s. Write the host as \"example.org\", \"*.example.org:443\", \"10.1.2.3:8080\" or \"10.0.0.0/8\", without a scheme and a path", text, why)
	}
	var e entry
	host := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), ".")
	if prefix, err := parsePrefix(host); err == nil { // check for an address first, because colons in an IPv6 address do not separate a port
		return []entry{{prefix: prefix}}, nil
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		port := host[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		switch {
		case port == "*":
			e.ports = true
		case err != nil || n == 0:
			return bad("what follows the colon is no port")
		default:
			e.port = uint16(n)
		}
		host = host[:i]
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if prefix, err := parsePrefix(bare); err == nil {
		e.prefix = prefix
		return []entry{e}, nil
	}
	if host == "*" {
		e.any = true
		return []entry{e}, nil
	}
	e.name, e.below = strings.CutPrefix(host, "*.")
	if !hostName().MatchString(e.name) || len(e.name) > 253 {
		return bad("it is neither a name nor an address")
	}
	out := []entry{e}
	if e.name == "localhost" && !e.below {
		for _, a := range []string{"127.0.0.1/32", "::1/128"} {
			e.name, e.prefix = "", netip.MustParsePrefix(a)
			out = append(out, e)
		}
	}
	return out, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, err
	}
	return p.Masked(), nil
}

func (e *entry) serves(port uint16) bool {
	return e.ports || e.port == port || e.port == 0 && (port == 80 || port == 443)
}

// AllowsName reports whether the list permits a name. The name must be in lower case.
func (l *List) AllowsName(name string, port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.serves(port) &&
			(e.any || e.name != "" && (e.name == name && !e.below || e.below && strings.HasSuffix(name, "."+e.name)))
	})
}

// NamesAddress reports whether the list contains an address or a range that includes it.
func (l *List) NamesAddress(a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.prefix.IsValid() && e.serves(port) && e.prefix.Contains(a)
	})
}

// NamesLoopback reports whether the list contains an address of the machine itself, on any port.
func (l *List) NamesLoopback() bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.prefix.IsValid() && e.prefix.Addr().IsLoopback()
	})
}

// AllowsAny reports whether the list permits every public address.
func (l *List) AllowsAny(port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.any && e.serves(port) })
}

// EntryFor returns the list entry that permits a host and port.
func EntryFor(host string, port uint16) string {
	if port == 80 || port == 443 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// special lists address ranges that are not public and that package netip does not know.
var special = func() (out []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		// IPv6 addresses that contain an IPv4 address, and site-local addresses.
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

// Public reports whether an address is a public internet address.
func Public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
