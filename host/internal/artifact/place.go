package artifact

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// Pattern selects sources: one whole name, or a prefix that ends in "/*".
type Pattern string

// ParsePattern reads a pattern such as "registry.example.org/acme/*".
func ParsePattern(text string) (Pattern, error) {
	prefix, all := strings.CutSuffix(text, "/*")
	_, err := ParseName(prefix)
	if all && err != nil { // a registry alone is a valid prefix
		_, err = ParseName(prefix + "/x")
	}
	if err != nil {
		return "", fmt.Errorf("%q selects no sources; write a whole name, or a prefix such as registry.example.org/acme/*", text)
	}
	return Pattern(text), nil
}

// Matches reports whether the pattern selects a source.
func (p Pattern) Matches(n Name) bool { _, ok := p.rest(n); return ok }

// rest returns the part of a source after the prefix.
func (p Pattern) rest(n Name) (string, bool) {
	prefix, all := strings.CutSuffix(string(p), "/*")
	if !all {
		return "", string(p) == n.String()
	}
	return strings.CutPrefix(n.String(), prefix+"/")
}

// Mirror replaces the place of sources.
type Mirror struct {
	Of Pattern
	// To is a registry with an optional path, or the URL of a directory: file:, https: or http:.
	To string
}

// ParseMirror checks the two parts of a mirror.
func ParseMirror(of, to string) (Mirror, error) {
	p, err := ParsePattern(of)
	if err != nil {
		return Mirror{}, err
	}
	if err := checkTarget(to); err != nil {
		return Mirror{}, err
	}
	return Mirror{p, to}, nil
}

func checkTarget(to string) error {
	u, err := url.Parse(to)
	switch {
	case err == nil && u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path):
	case err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "":
	default:
		if _, err := ParseName(path.Join(to, "x")); err != nil {
			return fmt.Errorf("%q is neither a registry such as harbor.corp/hub nor a directory such as file:///srv/mirror or https://files.corp/mirror", to)
		}
	}
	return nil
}

// PlaceKind is the kind of a [Place].
type PlaceKind int

// The kinds of places.
const (
	Registry  PlaceKind = iota // a repository of a registry
	Directory                  // a directory in the OCI image layout
	Web                        // such a directory on a web server
)

// Place is where the artifacts of a source are.
type Place struct {
	Kind PlaceKind
	// At is a repository, the path of a directory, or a URL.
	At string
}

// String returns the place as a URL or a repository.
func (p Place) String() string {
	if p.Kind == Directory {
		return "file://" + p.At
	}
	return p.At
}

// Locate returns the place of a source. The mirror with the longest prefix decides, and its place is the only one: a
// source that the mirror lacks is not looked up elsewhere.
func Locate(n Name, mirrors []Mirror) Place {
	var best *Mirror
	for i := range mirrors {
		m := &mirrors[i]
		if m.Of.Matches(n) && (best == nil || len(m.Of) > len(best.Of)) {
			best = m
		}
	}
	if best == nil {
		return Place{Registry, n.String()}
	}
	rest, _ := best.Of.rest(n)
	place, err := NameBelow(best.To, n, rest)
	if err != nil { // impossible after ParseMirror
		return Place{Registry, n.String()}
	}
	return place
}

// NameBelow returns the place of a source in a mirror. In a directory, it has the whole name of the source. In a
// registry, it has only the part of the name in the argument "rest".
func NameBelow(to string, n Name, rest string) (Place, error) {
	if err := checkTarget(to); err != nil {
		return Place{}, err
	}
	switch u, err := url.Parse(to); {
	case err == nil && u.Scheme == "file":
		return Place{Directory, filepath.Join(u.Path, filepath.FromSlash(n.String()))}, nil
	case err == nil && (u.Scheme == "https" || u.Scheme == "http"):
		return Place{Web, strings.TrimRight(to, "/") + "/" + n.String()}, nil
	}
	at, err := ParseName(path.Join(to, rest))
	if err != nil {
		return Place{}, errors.Join(fmt.Errorf("the mirror %s has no place for %s", to, n), err)
	}
	return Place{Registry, at.String()}, nil
}
