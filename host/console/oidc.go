package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Issuers logs people in at OpenID Connect providers. [host.Directory] implements it.
type Issuers interface {
	// LoginIssuers returns the names of the providers.
	LoginIssuers() []string
	// LoginIssuer returns the identifier of a provider.
	LoginIssuer(name string) string
	// BeginLogin begins a login. It returns the address for the browser, and a function that gets the access token.
	BeginLogin(issuer, redirect, state string) (address string,
		exchange func(ctx context.Context, code string) (token string, err error), err error)
}

// visit is a login that has begun at a provider but not ended.
type visit struct {
	issuer, to string
	until      time.Time
	exchange   func(ctx context.Context, code string) (string, error)
}

const (
	// visitLife is the time within which a person has to log in at the provider.
	visitLife = 10 * time.Minute
	maxVisits = 1000
	// stateCookie binds a login to the browser in which the login began. The browser comes back from the site of the
	// provider. On this way back, it would not send a cookie with SameSite=Strict.
	stateCookie = "toolhost_login"
	callback    = "/login/callback"
)

// beginOIDC sends the browser to a provider.
func (c *Console) beginOIDC(w http.ResponseWriter, r *http.Request) {
	if c.opts.Issuers == nil {
		c.fail(w, r, nil, http.StatusNotFound, errors.New("no provider is configured"))
		return
	}
	issuer, state := r.PostFormValue("issuer"), rand.Text()
	scheme := "http"
	if r.TLS != nil || c.opts.Secure {
		scheme = "https"
	}
	address, exchange, err := c.opts.Issuers.BeginLogin(issuer,
		(&url.URL{Scheme: scheme, Host: r.Host, Path: callback}).String(), state)
	if err != nil {
		c.opts.Log.Warn("a login to the console did not begin", "issuer", issuer, "why", err)
		c.loginFailed(w, r, err)
		return
	}
	c.mu.Lock()
	for known, v := range c.visits {
		if time.Now().After(v.until) {
			delete(c.visits, known)
		}
	}
	full := len(c.visits) >= maxVisits
	if !full {
		c.visits[state] = &visit{
			issuer: issuer, to: r.PostFormValue("to"), until: time.Now().Add(visitLife), exchange: exchange,
		}
	}
	c.mu.Unlock()
	if full {
		c.loginFailed(w, r, errors.New("too many logins have begun; try again in some minutes"))
		return
	}
	http.SetCookie(w, &http.Cookie{Name: stateCookie, Value: state, Path: callback, MaxAge: int(visitLife.Seconds()), HttpOnly: true, Secure: c.opts.Secure, SameSite: http.SameSiteLaxMode}) //nolint:gosec // Secure is set off loopback
	// Send a page with a link to the provider instead of a redirect. The content security policy restricts the redirect
	// of a form.
	c.render(w, http.StatusOK, "continue", &view{Title: "Log in", To: address})
}

// endOIDC ends a login after the provider has sent the browser back.
func (c *Console) endOIDC(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	state := q.Get("state")
	cookie, err := r.Cookie(stateCookie)
	c.mu.Lock()
	v := c.visits[state]
	delete(c.visits, state)
	c.mu.Unlock()
	switch {
	case err != nil, v == nil, time.Now().After(v.until),
		subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(state)) != 1:
		c.loginFailed(w, r, errors.New("this login did not begin in this browser, or is older than 10 minutes; begin again"))
		return
	case q.Has("iss") && q.Get("iss") != c.opts.Issuers.LoginIssuer(v.issuer):
		c.loginFailed(w, r, fmt.Errorf("another provider than %s answered", v.issuer))
		return
	case q.Get("error") != "":
		c.loginFailed(w, r, fmt.Errorf("the provider refused the login: %.80s %.400s", q.Get("error"), q.Get("error_description")))
		return
	}
	token, err := v.exchange(r.Context(), q.Get("code"))
	if err != nil {
		c.loginFailed(w, r, err)
		return
	}
	check := r.Clone(r.Context())
	check.Header.Set("Authorization", "Bearer "+token)
	p, err := c.opts.Authenticate(check)
	if err != nil || p == nil {
		c.loginFailed(w, r, fmt.Errorf("you are known to %s, but no principal of this server belongs to you; ask the operator for one: %w", v.issuer, err))
		return
	}
	s := c.newSession(p, check.Header.Get("Authorization"))
	c.setCookie(w, s.id)
	c.opts.Log.Info("a person logged in to the console", "principal", p.Name, "issuer", v.issuer, "from", r.RemoteAddr)
	// Send a page with a link instead of a redirect. The browser sends a strict cookie only if the link is on a page of
	// this server.
	c.render(w, http.StatusOK, "continue", &view{Title: "Logged in", To: safePath(v.to)})
}

func (c *Console) loginFailed(w http.ResponseWriter, r *http.Request, err error) {
	c.opts.Log.Warn("a login to the console was rejected", "from", r.RemoteAddr, "why", err)
	c.render(w, http.StatusForbidden, "login", &view{Title: "Log in", Error: err.Error(), Issuers: c.issuers()})
}

// issuers returns the names of the providers at which people can log in.
func (c *Console) issuers() []string {
	if c.opts.Issuers == nil {
		return nil
	}
	return c.opts.Issuers.LoginIssuers()
}
