package principal

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// provider is an OpenID Connect provider with keys of several kinds.
type provider struct {
	url    string
	keys   map[string]crypto.Signer // keys by id
	server *oidctest.Server
	asked  atomic.Int64
	mu     sync.Mutex // protects the keys that the field "server" returns
}

var keyAlgorithms = map[string]string{"ec": oidc.ES256, "ed": oidc.EdDSA, "next": oidc.ES256}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{keys: make(map[string]crypto.Signer), server: &oidctest.Server{Algorithms: []string{oidc.ES256}}}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.keys["ed"] = ed
	for _, id := range []string{"ec", "next"} {
		if p.keys[id], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	p.publish("ec", "ed")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.server.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	p.url = web.URL
	p.server.SetIssuer(web.URL)
	return p
}

func (p *provider) publish(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server.PublicKeys = nil
	for _, id := range ids {
		p.server.PublicKeys = append(p.server.PublicKeys, oidctest.PublicKey{PublicKey: p.keys[id].Public(), KeyID: id, Algorithm: keyAlgorithms[id]})
	}
}

// token returns a signed token. The claims in changes replace valid claims; a nil value removes a claim.
func (p *provider) token(t *testing.T, key string, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": p.url, "aud": "toolhost", "sub": "7", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"dev", "staff"}}
	maps.Copy(claims, changes)
	for name, v := range changes {
		if v == nil {
			delete(claims, name)
		}
	}
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return oidctest.SignIDToken(p.keys[key], key, keyAlgorithms[key], string(b))
}

func request(t *testing.T, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// TestScopesChoosePrincipal checks that the scopes of a token can decide which principal it stands for.
func TestScopesChoosePrincipal(t *testing.T) {
	p := newProvider(t)
	claim := func(scope string) map[string]string { return map[string]string{"scope": scope} }
	d := NewDirectory(func() Blocks {
		return Blocks{
			Issuers: []Issuer{{Name: "local", URL: p.url, Audience: "toolhost"}},
			Principals: []Block{
				{Name: "empty", Grant: Grant{Rights: Call}, Issuer: "local", Claims: claim(" ")},
				{Name: "writer", Grant: Grant{Rights: Call}, Issuer: "local", Claims: claim("tools:write")},
				{Name: "both", Grant: Grant{Rights: Call}, Issuer: "local", Claims: claim("tools:read tools:log")},
				{Name: "reader", Grant: Grant{Rights: Call}, Issuer: "local", Claims: claim("tools:read")},
			},
		}
	}, nil)
	for scope, want := range map[any]string{
		"tools:write": "writer/7", "openid tools:read tools:write": "writer/7", "tools:read": "reader/7", "tools:log openid tools:read": "both/7",
		"tools:writer": "", "tools": "", "": "",
	} {
		who, err := d.Authenticate(request(t, p.token(t, "ec", map[string]any{"scope": scope})))
		if want == "" && err == nil || want != "" && (err != nil || who.Name != want) {
			t.Errorf("%q: %+v, %v; want %q", scope, who, err, want)
		}
	}
}

func TestIssuer(t *testing.T) {
	p := newProvider(t)
	blocks := Blocks{
		Issuers:    []Issuer{{Name: "local", URL: p.url, Audience: "toolhost"}},
		Principals: []Block{{Name: "staff", Grant: Grant{Rights: Call}, Issuer: "local", Claims: map[string]string{"groups": "staff"}}},
	}
	d := NewDirectory(func() Blocks { return blocks }, nil)
	for _, key := range []string{"ec", "ed"} {
		who, err := d.Authenticate(request(t, p.token(t, key, nil)))
		if err != nil || who.Name != "staff/7" || who.Rights != Call || who.Local || who.Interactive {
			t.Errorf("%s: %+v %v", key, who, err)
		}
	}
	now := time.Now()
	forged := p.token(t, "ec", nil)
	parts := strings.Split(forged, ".")
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	public, err := x509.MarshalPKIXPublicKey(p.keys["ec"].Public())
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, public)
	symmetric := encode(`{"alg":"HS256","kid":"ec"}`) + "." + parts[1]
	mac.Write([]byte(symmetric))
	for name, token := range map[string]string{
		"other audience":        p.token(t, "ec", map[string]any{"aud": "another"}),
		"no audience":           p.token(t, "ec", map[string]any{"aud": nil}),
		"expired":               p.token(t, "ec", map[string]any{"exp": now.Add(-time.Second).Unix()}),
		"no expiry":             p.token(t, "ec", map[string]any{"exp": nil}),
		"not yet valid":         p.token(t, "ec", map[string]any{"nbf": now.Add(time.Hour).Unix()}),
		"other issuer":          p.token(t, "ec", map[string]any{"iss": "https://evil.example"}),
		"no subject":            p.token(t, "ec", map[string]any{"sub": nil}),
		"another group":         p.token(t, "ec", map[string]any{"groups": []string{"dev"}}),
		"no group":              p.token(t, "ec", map[string]any{"groups": nil}),
		"group is not a text":   p.token(t, "ec", map[string]any{"groups": map[string]any{"staff": true}}),
		"key of another issuer": p.token(t, "next", nil),
		"changed":               parts[0] + "." + encode(`{"iss":"`+p.url+`","aud":"toolhost","sub":"1","exp":9999999999,"groups":"staff"}`) + "." + parts[2],
		"no signature":          encode(`{"alg":"none"}`) + "." + parts[1] + ".",
		"symmetric":             symmetric + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"garbage":               "a.b.c",
	} {
		if who, err := d.Authenticate(request(t, token)); err == nil {
			t.Errorf("%s: %+v", name, who)
		}
	}
	// A token with an unknown key must cause a request for the keys. The answer to an earlier request can arrive first,
	// so this can take two attempts. A token with a known key must not cause a request.
	p.publish("next")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := d.Authenticate(request(t, p.token(t, "next", nil)))
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	asked := p.asked.Load()
	for range 20 {
		if _, err := d.Authenticate(request(t, p.token(t, "next", nil))); err != nil {
			t.Error(err)
		}
	}
	if n := p.asked.Load() - asked; n > 0 {
		t.Errorf("%d requests for known keys", n)
	}
	// A token becomes invalid if its principal is removed from the configuration.
	blocks.Principals = nil
	if who, err := d.Authenticate(request(t, p.token(t, "next", nil))); err == nil {
		t.Errorf("%+v", who)
	}
}

// TestSignedClock checks that an expired signed token stays invalid if the clock goes back. The token must stay invalid
// after a restart.
func TestSignedClock(t *testing.T) {
	p := newProvider(t)
	blocks := Blocks{
		Issuers:    []Issuer{{Name: "local", URL: p.url, Audience: "toolhost"}},
		Principals: []Block{{Name: "staff", Grant: Grant{Rights: Call}, Issuer: "local", Claims: map[string]string{"groups": "staff"}}},
	}
	begin := time.Now()
	token := p.token(t, "ec", map[string]any{"exp": begin.Add(time.Hour).Unix()})
	dir := t.TempDir()
	for _, c := range []struct {
		after time.Duration
		valid bool
	}{{0, true}, {59 * time.Minute, true}, {0, true}, {61 * time.Minute, false}, {0, false}, {-time.Hour, false}} {
		s := OpenTokens(dir)
		s.now = func() time.Time { return begin.Add(c.after) }
		if _, err := NewDirectory(func() Blocks { return blocks }, s).Authenticate(request(t, token)); (err == nil) != c.valid {
			t.Errorf("%v after the start: %v", c.after, err)
		}
	}
}

// TestIssuerWithoutTLS checks that the keys of an issuer with an https URL come over TLS, also if the issuer names
// another address or redirects to one.
func TestIssuerWithoutTLS(t *testing.T) {
	for name, c := range map[string]struct {
		redirected string // path that the issuer redirects to a server without TLS
		named      bool   // whether the issuer names a server without TLS for its keys
		valid      bool
	}{
		"all over TLS":             {valid: true},
		"the keys are elsewhere":   {named: true},
		"a redirect of the keys":   {redirected: "/keys"},
		"a redirect of all it has": {redirected: "/.well-known/openid-configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			plain := p.url
			web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == c.redirected:
					http.Redirect(w, r, plain+r.URL.Path, http.StatusFound)
				case c.named && r.URL.Path != "/keys":
					fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q, "id_token_signing_alg_values_supported": ["ES256"]}`, p.url, plain+"/keys")
				default:
					p.server.ServeHTTP(w, r)
				}
			}))
			defer web.Close()
			p.url = web.URL
			p.server.SetIssuer(web.URL)
			usual := http.DefaultTransport
			http.DefaultTransport = web.Client().Transport // trusts the certificate of web
			defer func() { http.DefaultTransport = usual }()
			blocks := Blocks{
				Issuers:    []Issuer{{Name: "local", URL: web.URL, Audience: "toolhost"}},
				Principals: []Block{{Name: "staff", Grant: Grant{Rights: Call}, Issuer: "local", Claims: map[string]string{"groups": "staff"}}},
			}
			_, err := NewDirectory(func() Blocks { return blocks }, nil).Authenticate(request(t, p.token(t, "ec", nil)))
			if c.valid && err != nil || !c.valid && (err == nil || !strings.Contains(err.Error(), "is not an https URL")) {
				t.Error(err)
			}
		})
	}
}

// TestIssuerAway checks that an unreachable issuer receives few requests. Its tokens must be valid when it answers
// again.
func TestIssuerAway(t *testing.T) {
	p := newProvider(t)
	var away atomic.Bool
	away.Store(true)
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		http.Error(w, "away", http.StatusServiceUnavailable)
	}))
	defer web.Close()
	blocks := Blocks{Issuers: []Issuer{{Name: "local", URL: web.URL, Audience: "toolhost"}}}
	d := NewDirectory(func() Blocks { return blocks }, nil)
	for range 10 {
		if _, err := d.Authenticate(request(t, p.token(t, "ec", map[string]any{"iss": web.URL}))); err == nil || !strings.Contains(err.Error(), "did not return its keys") {
			t.Error(err)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests", requests)
	}
}

func TestAuthenticate(t *testing.T) {
	tokens := OpenTokens(t.TempDir())
	own, _, err := tokens.Create("own", 0, &StoredGrant{Rights: []string{"log"}, Tools: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	block, _, err := tokens.Create("block", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	blocks := Blocks{Principals: []Block{{Name: "block", Grant: Grant{Rights: Answer}, Users: []int{4711}}}}
	d := NewDirectory(func() Blocks { return blocks }, tokens)
	d.Secrets = []Secret{{"start", StartToken(nil)}, {"approve", ApproverToken()}}
	for token, want := range map[string]string{own: "own", block: "block", "start": "start-token", "approve": "approver-token", "": "", "x": "", own + "x": ""} {
		who, err := d.Authenticate(request(t, token))
		if want == "" && err == nil || want != "" && (err != nil || who.Name != want) {
			t.Errorf("%q: %+v %v", token, who, err)
		}
	}
	for uid, want := range map[int]string{os.Getuid(): unixName(os.Getuid()), 4711: "block", 4712: ""} {
		r := request(t, "")
		who, err := d.Authenticate(r.WithContext(WithPeer(r.Context(), Peer{User: uid})))
		if want == "" && err == nil || want != "" && (err != nil || who.Name != want) {
			t.Errorf("%d: %+v %v", uid, who, err)
		}
	}
	r := request(t, "")
	if who, err := d.Authenticate(r.WithContext(WithPeer(r.Context(), Peer{User: os.Getuid(), Err: os.ErrPermission}))); err == nil {
		t.Errorf("%+v", who)
	}
	blocks.Principals = nil
	if who, err := d.Authenticate(request(t, block)); err == nil || !strings.Contains(err.Error(), "toolhost token revoke ") {
		t.Errorf("%+v %v", who, err)
	}
	d.Anonymous = true
	if who, err := d.Authenticate(request(t, "")); err != nil || who.Name != "anonymous" || who.Rights != Call || len(who.Workspaces) > 0 {
		t.Errorf("%+v %v", who, err)
	}
	if who, err := d.Authenticate(request(t, "wrong")); err == nil {
		t.Errorf("a wrong token counts as none: %+v", who)
	}
}
