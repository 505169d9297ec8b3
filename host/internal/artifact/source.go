package artifact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"toolhost.dev/host/internal/lazyregexp"

	"github.com/hashicorp/go-version"
)

// Name is a valid source: a registry and a repository in it.
type Name struct {
	// Host is the registry, possibly with a port. Path is the repository.
	Host, Path string
}

// String returns the whole name.
func (n Name) String() string { return n.Host + "/" + n.Path }

// Base returns the last element of the name, which is the name of the plugin.
func (n Name) Base() string { return n.Path[strings.LastIndexByte(n.Path, '/')+1:] }

// maxName is the maximum length of a source.
const maxName = 255

var (
	hostForm = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
	pathForm = lazyregexp.New(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
)

// ParseName reads a source. The first element must be a host, that is, contain a dot or a port, or be localhost.
// Otherwise a name without its registry would silently select another registry.
func ParseName(text string) (Name, error) {
	host, path, _ := strings.Cut(text, "/")
	switch {
	case len(text) > maxName:
		return Name{}, fmt.Errorf("source %.40q…: longer than %d characters", text, maxName)
	case host != "localhost" && !strings.ContainsAny(host, ".:") || !hostForm.MatchString(host):
		return Name{}, fmt.Errorf("source %q: %q is not a registry; write the whole name, such as registry.example.org/acme/weather", text, host)
	case !pathForm.MatchString(path):
		return Name{}, fmt.Errorf("source %q: %q is not a repository; write the whole name without a version, such as registry.example.org/acme/weather", text, path)
	}
	return Name{host, path}, nil
}

// Reference is a source with a version.
type Reference struct {
	Name
	Version Version
}

// ParseReference reads a source and a version, such as "registry.example.org/acme/weather:1.2.3".
func ParseReference(text string) (Reference, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 || strings.Contains(text[at:], "/") {
		return Reference{}, fmt.Errorf("%q has no version; add it, such as %s:1.2.3", text, text)
	}
	name, err := ParseName(text[:at])
	if err != nil {
		return Reference{}, err
	}
	v, err := ParseVersion(text[at+1:])
	return Reference{name, v}, err
}

// Version is a semantic version such as "1.2.3" or "2.0.0-rc.1".
type Version struct{ v *version.Version }

var versionForm = lazyregexp.New(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// ParseVersion reads a version. It must have three numbers and no "v" before them, so that each version has one
// spelling.
func ParseVersion(text string) (Version, error) {
	if len(text) > 100 || !versionForm.MatchString(text) {
		return Version{}, fmt.Errorf("%.40q is not a version; write three numbers such as 1.2.3, or 1.2.3-rc.1", text)
	}
	v, err := version.NewSemver(text)
	if err != nil {
		return Version{}, fmt.Errorf("%.40q is not a version: %w", text, err)
	}
	return Version{v}, nil
}

// String returns the version as it was written.
func (v Version) String() string {
	if v.v == nil {
		return ""
	}
	return v.v.Original()
}

// Compare returns a negative number if v is lower than w, zero if they are equal, and a positive number otherwise.
func (v Version) Compare(w Version) int { return v.v.Compare(w.v) }

// Constraint restricts the versions of a plugin. The zero value permits all versions except prereleases.
type Constraint struct {
	text string
	c    version.Constraints
}

// ParseConstraint reads a constraint in the syntax of Terraform, such as "~> 1.2", ">= 1.4, < 3" or "1.2.3". An empty
// text permits all versions except prereleases.
func ParseConstraint(text string) (Constraint, error) {
	if text == "" {
		return Constraint{}, nil
	}
	c, err := version.NewConstraint(text)
	if err != nil || len(text) > 200 {
		return Constraint{}, fmt.Errorf("%.40q is not a version constraint; write \"~> 1.2\" for 1.2 and later 1.x, \">= 1.4, < 3\", or one version such as \"1.2.3\"", text)
	}
	return Constraint{text, c}, nil
}

// String returns the constraint as it was written.
func (c Constraint) String() string { return c.text }

// Allows reports whether a version satisfies the constraint.
func (c Constraint) Allows(v Version) bool {
	if c.text == "" {
		return v.v.Prerelease() == ""
	}
	return c.c.Check(v.v)
}

// VersionsOf returns the versions among the tags of a repository, the highest first. Other tags are ignored: registries
// keep signatures under tags such as "sha256-…", and an author can add "latest".
func VersionsOf(tags []string) []Version {
	var out []Version
	for _, t := range tags {
		if v, err := ParseVersion(t); err == nil {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Version) int {
		return cmp.Or(b.Compare(a), strings.Compare(a.String(), b.String()))
	})
	return out
}

// SelectVersion returns the highest version that satisfies the constraint and that skip does not exclude. A nil skip
// excludes no version.
func SelectVersion(versions []Version, c Constraint, skip func(Version) bool) (Version, bool) {
	for _, v := range versions {
		if c.Allows(v) && (skip == nil || !skip(v)) {
			return v, true
		}
	}
	return Version{}, false
}
