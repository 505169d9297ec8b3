package principal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Issuer is an OpenID Connect provider whose signed tokens authenticate principals.
type Issuer struct {
	Name string
	// URL is the issuer's identifier, as in the claim "iss". Its keys are found through its discovery document.
	URL string
	// Audience is the value that the claim "aud" of each token must contain. If Audience is empty, the claim must
	// contain Resource.
	Audience string
	// Resource is the URL under which clients reach this server, such as https://tools.example.com/mcp. If Resource is
	// set, the answer to a client without a token names the issuers from which the client can get a token (RFC 9728).
	Resource string
	// Scopes are the scopes that each token must have, separated by spaces.
	Scopes string
	// ClientID and ClientSecret are the credentials of the web console at the provider. An empty ClientID means that
	// nobody can log in to the console through this provider. A public client has no secret.
	ClientID, ClientSecret string
}

// client returns the HTTP client for requests to the issuer. For an issuer with an https URL, it refuses requests
// without TLS. Otherwise, a redirect or an address in the discovery document could let the network forge keys or read
// secrets.
func (i *Issuer) client() *http.Client {
	return &http.Client{
		Timeout:   issuerTimeout,
		Transport: &Secured{Plain: !strings.HasPrefix(i.URL, "https:"), Base: http.DefaultTransport},
	}
}

// ScopeError means that a token is valid but has too few scopes.
type ScopeError struct {
	Issuer Issuer
}

// Error implements error.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("the token of issuer %s lacks a scope; it needs: %s", e.Issuer.Name, e.Issuer.Scopes)
}

// algorithms lists the accepted signature algorithms. Symmetric algorithms and "none" are not accepted.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256,
	oidc.ES384, oidc.ES512, oidc.EdDSA}

// issuerTimeout limits a request to an issuer.
const issuerTimeout = 10 * time.Second

// retryAfter is the time between two attempts to reach an issuer that did not answer.
const retryAfter = 5 * time.Second

// verifiers verifies the tokens of issuers. It keeps the keys of an issuer until a token has an unknown key.
type verifiers struct {
	now func() time.Time

	mu sync.Mutex
	by map[Issuer]*verifier
}

type verifier struct {
	mu   sync.Mutex
	oidc *oidc.IDTokenVerifier
	// endpoint contains the addresses for logins. It is set together with oidc.
	endpoint oauth2.Endpoint
	err      error
	failed   time.Time
}

// claims contains the verified claims of a token.
type claims struct {
	Subject string
	All     map[string]any
}

// verify returns the claims of a token that one of the issuers signed.
func (v *verifiers) verify(ctx context.Context, issuers []Issuer, raw string) (*Issuer, *claims, error) {
	named, err := issuerOf(raw)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(issuers, func(i Issuer) bool { return i.URL == named })
	if i < 0 {
		return nil, nil, errors.New("the token is from an issuer that the configuration does not name")
	}
	issuer := &issuers[i]
	oidcVerifier, err := v.verifierOf(*issuer).get(issuer, v.now)
	if err != nil {
		return nil, nil, err
	}
	token, err := oidcVerifier.Verify(ctx, raw)
	if err != nil {
		return nil, nil, fmt.Errorf("the token of issuer %s is not valid: %w", issuer.Name, err)
	}
	if err := accessToken(raw, token, issuer); err != nil {
		return nil, nil, fmt.Errorf("the token of issuer %s is not valid: %w", issuer.Name, err)
	}
	if token.Subject == "" {
		return nil, nil, fmt.Errorf("the token of issuer %s has no subject", issuer.Name)
	}
	out := &claims{Subject: token.Subject}
	if err := token.Claims(&out.All); err != nil {
		return nil, nil, fmt.Errorf("the claims of the token cannot be read: %w", err)
	}
	if !out.scopes(issuer.Scopes) {
		return nil, nil, &ScopeError{Issuer: *issuer}
	}
	return issuer, out, nil
}

// accessToken returns an error if a token with a valid signature is not an access token for this server. An issuer also
// signs ID tokens with the same keys. The audience of an ID token is a client.
func accessToken(raw string, token *oidc.IDToken, issuer *Issuer) error {
	audience := func(a string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(issuer.Resource, "/") }
	if issuer.Audience == "" && !slices.ContainsFunc(token.Audience, audience) { // otherwise, the verifier checked the audience
		return fmt.Errorf("its audience is %q, not %q", token.Audience, issuer.Resource)
	}
	head, _, _ := strings.Cut(raw, ".")
	b, err := decodeSegment(head)
	if err != nil {
		return err
	}
	var header struct {
		Type string `json:"typ"`
	}
	if err := json.Unmarshal(b, &header); err != nil {
		return err
	}
	switch strings.TrimPrefix(strings.ToLower(header.Type), "application/") {
	case "", "jwt", "at+jwt": // RFC 9068, section 2.1
	default:
		return fmt.Errorf("its type is %q, not at+jwt", header.Type)
	}
	if token.Nonce != "" || token.AccessTokenHash != "" {
		return errors.New("it is an ID token; send the access token")
	}
	return nil
}

// scopeClaims are the claims that list scopes.
var scopeClaims = []string{"scope", "scp"}

// scopes reports whether the token has all wanted scopes. Issuers list the scopes in the claim "scope" (RFC 9068), or
// in "scp".
func (c *claims) scopes(wanted string) bool {
	var have []string
	for _, name := range scopeClaims {
		switch value := c.All[name].(type) {
		case string:
			have = append(have, strings.Fields(value)...)
		case []any:
			for _, v := range value {
				if s, ok := v.(string); ok {
					have = append(have, s)
				}
			}
		}
	}
	return !slices.ContainsFunc(strings.Fields(wanted), func(s string) bool { return !slices.Contains(have, s) })
}

// issuerOf returns the issuer in a token's claims. The claim is not yet verified.
func issuerOf(raw string) (string, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return "", errNoToken
	}
	b, err := decodeSegment(parts[1])
	if err != nil {
		return "", errNoToken
	}
	var payload struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(b, &payload); err != nil || payload.Issuer == "" {
		return "", errNoToken
	}
	return payload.Issuer, nil
}

func (v *verifiers) verifierOf(issuer Issuer) *verifier {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == nil {
		v.by = make(map[Issuer]*verifier)
	}
	if v.by[issuer] == nil {
		v.by[issuer] = new(verifier)
	}
	return v.by[issuer]
}

// get returns the verifier of an issuer. The first call requests the discovery document of the issuer.
// After a failure, the next request is delayed, so that callers cannot make the host flood the issuer.
func (v *verifier) get(issuer *Issuer, now func() time.Time) (*oidc.IDTokenVerifier, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.oidc != nil {
		return v.oidc, nil
	}
	if v.err != nil && time.Since(v.failed) < retryAfter {
		return nil, v.err
	}
	// Do not use the context of one call, because later requests for keys also use this context.
	ctx := oidc.ClientContext(context.Background(), issuer.client())
	provider, err := oidc.NewProvider(ctx, issuer.URL)
	if err != nil {
		v.failed = time.Now()
		v.err = fmt.Errorf("issuer %s did not return its keys: %w. Check its url in the configuration, and the network of the host", issuer.Name, err)
		return nil, v.err
	}
	v.endpoint = provider.Endpoint()
	v.oidc = provider.Verifier(&oidc.Config{
		ClientID: issuer.Audience, SkipClientIDCheck: issuer.Audience == "", SupportedSigningAlgs: algorithms, Now: now,
	})
	return v.oidc, nil
}

// match reports whether the verified claims contain all wanted values. A claim with a list must contain the
// value. A text that lists scopes, with spaces between them, must contain all scopes of the value.
func (c *claims) match(wanted map[string]string) bool {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch value := c.All[name].(type) {
		case string:
			if value == wanted[name] {
				continue
			}
			if strings.TrimSpace(wanted[name]) == "" || !slices.Contains(scopeClaims, name) ||
				!(&claims{All: map[string]any{name: value}}).scopes(wanted[name]) {
				return false
			}
		case []any:
			if !slices.ContainsFunc(value, func(v any) bool { s, ok := v.(string); return ok && s == wanted[name] }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
