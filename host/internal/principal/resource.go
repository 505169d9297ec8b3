package principal

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MetadataPath begins the paths of resource metadata (RFC 9728, section 3).
const MetadataPath = "/.well-known/oauth-protected-resource"

// Resource describes how clients get tokens for a URL of this server.
type Resource struct {
	URL     string
	Issuers []string // URLs of the issuers
	Scopes  []string
}

// Resources returns the resources that issuers of the configuration name, in the order of the configuration.
func (d *Directory) Resources() []Resource {
	var out []Resource
	for _, i := range d.Blocks().Issuers {
		if i.Resource == "" {
			continue
		}
		at := slices.IndexFunc(out, func(r Resource) bool { return r.URL == i.Resource })
		if at < 0 {
			at, out = len(out), append(out, Resource{URL: i.Resource})
		}
		out[at].Issuers = append(out[at].Issuers, i.URL)
		for _, s := range strings.Fields(i.Scopes) {
			if !slices.Contains(out[at].Scopes, s) {
				out[at].Scopes = append(out[at].Scopes, s)
			}
		}
	}
	return out
}

// Described returns the resource whose metadata a client requests under a path. The path MetadataPath itself belongs to
// the first resource, because some clients do not append the path of the resource.
func (d *Directory) Described(path string) (Resource, bool) {
	path = strings.TrimPrefix(path, MetadataPath)
	for _, r := range d.Resources() {
		if u, err := url.Parse(r.URL); err == nil &&
			(path == "" || strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(path, "/")) {
			return r, true
		}
	}
	return Resource{}, false
}

// Names returns the host names of all resources. Clients use these names to reach the server.
func (d *Directory) Names() []string {
	var out []string
	for _, r := range d.Resources() {
		if u, err := url.Parse(r.URL); err == nil {
			out = append(out, u.Hostname())
		}
	}
	return out
}

// Refusal returns the HTTP status and the header WWW-Authenticate for a request that [Directory.Authenticate] rejected
// with err. The header tells the client where it can get a token, and which scopes the token must have.
func (d *Directory) Refusal(r *http.Request, err error) (status int, challenge string) {
	status, challenge = http.StatusUnauthorized, `Bearer realm="toolhost"`
	var scope *ScopeError
	switch {
	case errors.As(err, &scope):
		status, challenge = http.StatusForbidden, challenge+`, error="insufficient_scope"`
	case !errors.Is(err, ErrMissing):
		challenge += `, error="invalid_token"`
	}
	resource, ok := d.resourceOf(r)
	if !ok {
		return status, challenge
	}
	if u, err := url.Parse(resource.URL); err == nil {
		challenge += `, resource_metadata="` + u.Scheme + "://" + u.Host + MetadataPath +
			strings.TrimSuffix(u.EscapedPath(), "/") + `"`
	}
	if len(resource.Scopes) > 0 {
		challenge += `, scope="` + strings.Join(resource.Scopes, " ") + `"`
	}
	return status, challenge
}

// resourceOf returns the resource that contains the path of a request, or the first resource.
func (d *Directory) resourceOf(r *http.Request) (Resource, bool) {
	all := d.Resources()
	for _, res := range all {
		u, err := url.Parse(res.URL)
		if err != nil {
			continue
		}
		if dir := strings.TrimSuffix(u.Path, "/"); r.URL.Path == dir || strings.HasPrefix(r.URL.Path, dir+"/") {
			return res, true
		}
	}
	if len(all) == 0 {
		return Resource{}, false
	}
	return all[0], true
}
