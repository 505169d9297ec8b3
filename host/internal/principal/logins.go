package principal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"toolhost.dev/host/internal/ownfile"
)

// Login is a login at one server.
type Login struct {
	// Resource is the URL of the server, as in the configuration.
	Resource string `json:"resource"`
	// Issuer is the authorization server that issued the tokens.
	Issuer string `json:"issuer,omitempty"`
	// ClientID and ClientSecret identify this program to the issuer.
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"`
	// TokenURL and AuthStyle determine how a token is renewed.
	TokenURL  string           `json:"token_url"`
	AuthStyle oauth2.AuthStyle `json:"auth_style,omitempty"`
	// RevokeURL is the address at which a token is revoked (RFC 7009). It can be empty.
	RevokeURL string   `json:"revoke_url,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	Access    string   `json:"access_token"`
	Refresh   string   `json:"refresh_token,omitempty"`
	// Obtained is the time at which the access token was issued. Expiry is zero if it does not expire.
	Obtained time.Time `json:"obtained"`
	Expiry   time.Time `json:"expiry,omitzero"`
}

// expired reports whether the access token has expired.
func (l *Login) expired(now time.Time) bool { return !l.Expiry.IsZero() && !now.Before(l.Expiry) }

// stale reports whether the access token should be renewed: in the last fifth of its lifetime, or if it was obtained
// after now, because the clock went back.
func (l *Login) stale(now time.Time) bool {
	if l.Expiry.IsZero() {
		return false
	}
	return now.Before(l.Obtained) || now.After(l.Expiry.Add(-l.Expiry.Sub(l.Obtained)/5))
}

// Logins is a directory with logins. Only its owner can read it. Several processes can use it at the same time.
type Logins struct {
	dir string
	now func() time.Time
}

// OpenLogins returns the store in a state directory. An empty directory means that there are no logins.
func OpenLogins(state string) *Logins {
	s := &Logins{now: time.Now}
	if state != "" {
		s.dir = filepath.Join(state, "logins")
	}
	return s
}

func (s *Logins) file(resource string) ownfile.File {
	sum := sha256.Sum256([]byte(resource))
	return ownfile.File{
		Path: filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json"), Name: "the login at " + loginHost(resource),
	}
}

// loginHost returns the host name of a URL, for messages.
func loginHost(resource string) string {
	if u, err := url.Parse(resource); err == nil && u.Host != "" {
		return u.Host
	}
	return "the server"
}

// Load returns the login at a server, or nil if nobody logged in.
func (s *Logins) Load(resource string) (*Login, error) {
	if s.dir == "" {
		return nil, nil
	}
	var l Login
	f := s.file(resource)
	if err := f.Read(&l); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w. Log in again: toolhost mcp login FIELD", f.Name, err)
	}
	if l.Resource != resource {
		return nil, nil
	}
	return &l, nil
}

// Save replaces the login at a server.
func (s *Logins) Save(l *Login) error {
	if s.dir == "" {
		return errors.New("logins need a state directory; remove --no-state, or set state { directory }")
	}
	return s.file(l.Resource).Change(func() (any, error) { return l, nil })
}

// Remove deletes the login at a server. It returns false if there was none.
func (s *Logins) Remove(resource string) (bool, error) {
	if s.dir == "" {
		return false, nil
	}
	err := os.Remove(s.file(resource).Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ErrEnded means that a login can no longer be renewed. A person must log in again.
var ErrEnded = errors.New("the login ended and cannot be renewed")

// errUnchanged stops a change of a file whose content is already right.
var errUnchanged = errors.New("unchanged")

// Fresh returns the login at a server with an access token that is valid for some time. It renews the token if needed.
// Only one process renews a token at a time, because many issuers accept a refresh token only once. Fresh returns nil
// if there is no login. If the issuer cannot be reached, Fresh returns the old token while it is valid.
func (s *Logins) Fresh(ctx context.Context, resource string) (*Login, error) {
	l, err := s.Load(resource)
	if err != nil || l == nil || !l.stale(s.now()) {
		return l, err
	}
	err = s.file(resource).Change(func() (any, error) {
		now, err := s.Load(resource) // another process can have renewed the token, or logged out
		if err != nil {
			return nil, err
		}
		if l = now; l == nil || !l.stale(s.now()) {
			return nil, errUnchanged
		}
		if err := s.renew(ctx, l); err != nil {
			return nil, err
		}
		return l, nil
	})
	switch {
	case err == nil || errors.Is(err, errUnchanged):
		return l, nil
	case l != nil && !l.expired(s.now()):
		return l, nil
	}
	return nil, err
}

// renew requests a new access token.
func (s *Logins) renew(ctx context.Context, l *Login) error {
	if l.Refresh == "" {
		return ErrEnded
	}
	cfg := &oauth2.Config{ClientID: l.ClientID, ClientSecret: l.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: l.AuthStyle}}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, LoginClient(l.Resource))
	token, err := cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: l.Refresh}).Token()
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.ErrorCode != "" && answer.Response.StatusCode < 500 &&
		answer.Response.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("%w: %s answered %s", ErrEnded, loginHost(l.TokenURL), clean(answer.ErrorCode))
	}
	if err != nil {
		return fmt.Errorf("%s did not renew the login: %s", loginHost(l.TokenURL), clean(err.Error()))
	}
	l.Access, l.Obtained, l.Expiry = token.AccessToken, s.now(), token.Expiry
	if token.RefreshToken != "" {
		l.Refresh = token.RefreshToken
	}
	return nil
}

// clean shortens a text of an issuer and removes characters that could control a terminal.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 200)]
}

// RevokeLogin asks the issuer to revoke the tokens of a login.
func RevokeLogin(ctx context.Context, l *Login) error {
	if l.RevokeURL == "" {
		return errors.New("the issuer names no address for that")
	}
	for _, token := range slices.DeleteFunc([]string{l.Refresh, l.Access}, func(t string) bool { return t == "" }) {
		form := url.Values{"token": {token}, "client_id": {l.ClientID}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.RevokeURL, strings.NewReader(form.Encode()))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if l.ClientSecret != "" {
			req.SetBasicAuth(url.QueryEscape(l.ClientID), url.QueryEscape(l.ClientSecret))
		}
		res, err := LoginClient(l.Resource).Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close() // ignore the error, because only the status matters
		if res.StatusCode/100 != 2 {
			return fmt.Errorf("%s did not revoke the token: status %d", loginHost(l.RevokeURL), res.StatusCode)
		}
	}
	return nil
}
