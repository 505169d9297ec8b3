// Package hostlist is lists of the hosts that may be reached.
package hostlist

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// List is the hosts that may be reached. The zero value is none.
type List struct{ entries []entry }

// entry is one line of the list: a name, all names below one, or addresses; and ports.
type entry struct {
	name   string // empty: any, or addresses
	below  bool   // names below name
	any    bool
	prefix netip.Prefix
	port   uint16 // 0: the ports of the web
	ports  bool   // any port
}

var hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// Parse reads a list such as "proxy.golang.org", "*.github.com:443", "10.0.0.0/8:*" or "*".
// Without a port an entry is for 80 and 443.
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
	if prefix, err := parsePrefix(host); err == nil { // an IPv6 address has colons of its own
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
	if !hostName.MatchString(e.name) || len(e.name) > 253 {
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

// AllowsName reports whether a name may be reached, in lower case.
func (l *List) AllowsName(name string, port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.serves(port) && (e.any || e.name != "" && (e.name == name && !e.below || e.below && strings.HasSuffix(name, "."+e.name)))
	})
}

// NamesAddress reports whether an address is listed itself, or a range that it is in.
func (l *List) NamesAddress(a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.prefix.IsValid() && e.serves(port) && e.prefix.Contains(a)
	})
}

// AllowsAny reports whether every public address may be reached.
func (l *List) AllowsAny(port uint16) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.any && e.serves(port) })
}

// EntryFor gives what would have to be listed for a host.
func EntryFor(host string, port uint16) string {
	if port == 80 || port == 443 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// special are ranges that are not public, besides those that package netip knows.
var special = func() (out []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		// Addresses that carry an IPv4 address in them, and what is local to a site.
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

// Public reports whether an address belongs to the open internet.
func Public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
