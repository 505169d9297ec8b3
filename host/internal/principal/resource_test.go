package principal

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
)

// TestResource checks which tokens a protected resource accepts. It also checks the status and the challenge that it
// sends to other clients.
func TestResource(t *testing.T) {
	p := newProvider(t)
	const resource = "https://tools.example/mcp"
	blocks := Blocks{
		Issuers:    []Issuer{{Name: "local", URL: p.url, Resource: resource, Scopes: "tools extra"}},
		Principals: []Block{{Name: "staff", Grant: Grant{Rights: Call}, Issuer: "local", Claims: map[string]string{"groups": "staff"}}},
	}
	d := NewDirectory(func() Blocks { return blocks }, nil)
	with := func(changes map[string]any) map[string]any {
		out := map[string]any{"aud": resource, "scope": "extra tools other"}
		for k, v := range changes {
			out[k] = v
		}
		return out
	}
	for name, changes := range map[string]map[string]any{
		"as it must be": nil, "audience with a slash": {"aud": resource + "/"}, "several audiences": {"aud": []string{"x", resource}},
		"list of scopes": {"scope": nil, "scp": []string{"tools", "extra"}},
	} {
		if _, err := d.Authenticate(request(t, p.token(t, "ec", with(changes)))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused := func(name, token string, status int, challenge ...string) {
		t.Helper()
		_, err := d.Authenticate(request(t, token))
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		got, header := d.Refusal(request(t, token), err)
		if got != status {
			t.Errorf("%s: %d, want %d (%v)", name, got, status, err)
		}
		for _, c := range append(challenge, `Bearer realm="toolhost"`, `resource_metadata="https://tools.example`+MetadataPath+`/mcp"`, `scope="tools extra"`) {
			if !strings.Contains(header, c) {
				t.Errorf("%s: %s: no %s", name, header, c)
			}
		}
	}
	for name, changes := range map[string]map[string]any{
		"other resource": {"aud": "https://tools.example/other"}, "no audience": {"aud": nil}, "client as audience": {"aud": "toolhost"},
		"nonce of an ID token": {"nonce": "n"}, "hash of an ID token": {"at_hash": "h"}, "other host": {"aud": "https://tools.example.evil/mcp"},
	} {
		refused(name, p.token(t, "ec", with(changes)), http.StatusUnauthorized, `error="invalid_token"`)
	}
	for name, scope := range map[string]any{"no scope": nil, "one of two scopes": "tools", "prefix of a scope": "tools extras", "scope of another type": 7} {
		refused(name, p.token(t, "ec", with(map[string]any{"scope": scope})), http.StatusForbidden, `error="insufficient_scope"`)
	}
	for typ, want := range map[string]bool{"": true, "JWT": true, "at+jwt": true, "application/at+JWT": true, "logout+jwt": false, "dpop+jwt": false} {
		raw := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"`+typ+`"}`)) + ".e30.x"
		if err := accessToken(raw, &oidc.IDToken{Audience: []string{resource}}, &blocks.Issuers[0]); (err == nil) != want {
			t.Errorf("type %q: %v", typ, err)
		}
	}
	_, header := d.Refusal(request(t, ""), ErrMissing)
	if strings.Contains(header, "error") || !strings.Contains(header, "resource_metadata") {
		t.Error(header)
	}
	blocks.Issuers = append(blocks.Issuers, Issuer{Name: "second", URL: "https://second.example", Resource: resource, Scopes: "tools"}, Issuer{Name: "other", URL: "https://third.example", Resource: "http://localhost:8080"})
	for path, want := range map[string]string{"": resource, "/mcp": resource, "/mcp/": resource, "/other": "", "/": "http://localhost:8080"} {
		if r, _ := d.Described(MetadataPath + path); r.URL != want {
			t.Errorf("%q: %+v", path, r)
		}
	}
	if r, _ := d.Described(MetadataPath); len(r.Issuers) != 2 || r.Issuers[1] != "https://second.example" || strings.Join(r.Scopes, " ") != "tools extra" {
		t.Errorf("%+v", r)
	}
	if names := d.Names(); strings.Join(names, " ") != "tools.example localhost" {
		t.Error(names)
	}
	blocks.Issuers = nil
	if code, header := d.Refusal(request(t, ""), errors.New("x")); code != http.StatusUnauthorized || strings.Contains(header, "metadata") {
		t.Error(code, header)
	}
}
