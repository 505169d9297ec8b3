package artifact

import (
	"fmt"
	"strings"
	"toolhost.dev/host/internal/lazyregexp"
)

// Package is a package of npm with the range of its acceptable versions.
type Package struct{ Name, Range string }

var (
	packageForm = lazyregexp.New(`^(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*$`)
	rangeForm   = lazyregexp.New(`^[0-9A-Za-z.^~<>=|* -]{1,100}$`)
)

// ParsePackage reads a package such as "npm:@modelcontextprotocol/server-memory@~2026.8". The range is required. It
// must be neither an address nor a path.
func ParsePackage(text string) (Package, error) {
	rest, ok := strings.CutPrefix(text, "npm:")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 1 || len(rest) > maxName || !packageForm.MatchString(rest[:at]) ||
		!rangeForm.MatchString(rest[at+1:]) {
		return Package{}, fmt.Errorf("%.100q is not a package; write its name and versions, such as npm:@modelcontextprotocol/server-memory@~2026.8", text)
	}
	return Package{rest[:at], rest[at+1:]}, nil
}
