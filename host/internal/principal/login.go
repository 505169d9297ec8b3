package principal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// LoginIssuers returns the names of the issuers at which a person can log in with a browser.
func (d *Directory) LoginIssuers() []string {
	var names []string
	for _, i := range d.Blocks().Issuers {
		if i.ClientID != "" {
			names = append(names, i.Name)
		}
	}
	return names
}

// BeginLogin begins the login of a person at an issuer, with an authorization code and PKCE (RFC 7636). It returns the
// address to open in the browser. The issuer then redirects the browser to the address in "redirect", with the state
// and a code. The function "exchange" returns the access token for the code. [Directory.Authenticate] accepts requests
// with this token.
func (d *Directory) BeginLogin(issuer, redirect, state string) (address string,
	exchange func(ctx context.Context, code string) (token string, err error), err error) {
	issuers := d.Blocks().Issuers
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return i.Name == issuer && i.ClientID != "" })
	if at < 0 {
		return "", nil, fmt.Errorf("nobody can log in at an issuer %q; the configuration has no such issuer with a client_id", issuer)
	}
	i := &issuers[at]
	v := d.signed.verifierOf(*i)
	if _, err := v.get(i, d.signed.now); err != nil {
		return "", nil, err
	}
	cfg := oauth2.Config{ClientID: i.ClientID, ClientSecret: i.ClientSecret, Endpoint: v.endpoint,
		RedirectURL: redirect, Scopes: append([]string{"openid"}, strings.Fields(i.Scopes)...)}
	verifier := oauth2.GenerateVerifier()
	wanted := oauth2.SetAuthURLParam("resource", i.Resource) // RFC 8707
	if i.Resource == "" {
		wanted = oauth2.SetAuthURLParam("audience", i.Audience)
	}
	exchange = func(ctx context.Context, code string) (string, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, i.client())
		token, err := cfg.Exchange(ctx, code, oauth2.VerifierOption(verifier), wanted)
		if err != nil {
			return "", fmt.Errorf("issuer %s refused the login: %w", issuer, err)
		}
		if token.AccessToken == "" {
			return "", errors.New("the issuer returned no access token")
		}
		return token.AccessToken, nil
	}
	return cfg.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), wanted), exchange, nil
}

// LoginIssuer returns the identifier of an issuer, as in the parameter "iss" of the issuer's answers (RFC 9207).
func (d *Directory) LoginIssuer(name string) string {
	for _, i := range d.Blocks().Issuers {
		if i.Name == name {
			return i.URL
		}
	}
	return ""
}
