package console

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"toolhost.dev/host"
)

// session is a login in a browser.
type session struct {
	id, csrf string
	// authorization is the header with the token of the login. It is empty after a login with a one-time link. Each
	// request checks the token again, so the session ends when the token becomes invalid.
	authorization string
	principal     *host.Principal
	used          time.Time
}

const (
	cookieName = "toolhost_console"
	// idleLife is the time without requests after which a login ends.
	idleLife = 12 * time.Hour
	// maxSessions is the maximum number of logins.
	maxSessions = 1000
)

// begin logs a principal in.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, p *host.Principal, authorization string) {
	s := c.newSession(p, authorization)
	c.setCookie(w, s.id)
	c.opts.Log.Info("a person logged in to the console", "principal", p.Name, "from", r.RemoteAddr)
	http.Redirect(w, r, safePath(r.FormValue("to")), http.StatusSeeOther) //nolint:gosec // a path of this server
}

// safePath returns the given path if it is a page of this server. Otherwise it returns the path of the first page.
func safePath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, "\\") {
		return "/"
	}
	return to
}

func (c *Console) setCookie(w http.ResponseWriter, id string) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true, Secure: c.opts.Secure, SameSite: http.SameSiteStrictMode}) //nolint:gosec // Secure is set off loopback
}

// newSession adds a login.
func (c *Console) newSession(p *host.Principal, authorization string) *session {
	s := &session{
		id: rand.Text() + rand.Text(), csrf: rand.Text(), authorization: authorization, principal: p, used: time.Now(),
	}
	c.mu.Lock()
	oldest := ""
	for id, other := range c.sessions {
		if time.Since(other.used) > idleLife {
			delete(c.sessions, id)
		} else if oldest == "" || other.used.Before(c.sessions[oldest].used) {
			oldest = id
		}
	}
	if len(c.sessions) >= maxSessions {
		delete(c.sessions, oldest)
	}
	c.sessions[s.id] = s
	c.mu.Unlock()
	return s
}

// sessionOf returns the login that belongs to a request, or nil.
func (c *Console) sessionOf(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	s := c.sessions[cookie.Value]
	if s != nil && time.Since(s.used) > idleLife {
		delete(c.sessions, cookie.Value)
		s = nil
	}
	if s == nil {
		c.mu.Unlock()
		return nil
	}
	s.used = time.Now()
	out := *s
	c.mu.Unlock()
	if out.authorization != "" {
		check := r.Clone(r.Context())
		check.Header.Set("Authorization", out.authorization)
		if out.principal, err = c.opts.Authenticate(check); err != nil { // the token was revoked, or expired
			c.end(out.id)
			return nil
		}
	}
	return &out
}

func (c *Console) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, id)
}

// handler is a handler for people who are logged in.
type handler func(w http.ResponseWriter, r *http.Request, s *session)

func (c *Console) loggedIn(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessionOf(r)
		switch {
		case s != nil:
			next(w, r, s)
		case r.Method == http.MethodGet && r.URL.Path != "/console/events":
			http.Redirect(w, r, "/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		default:
			http.Error(w, "the login ended; log in again", http.StatusUnauthorized)
		}
	}
}

// action makes a change. It returns the path of the page to show next.
type action func(r *http.Request, s *session) (next string, err error)

// guarded refuses requests that a page of the console did not make.
func (c *Console) guarded(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(s.csrf)) != 1 {
			c.fail(w, r, s, http.StatusForbidden, errors.New("this form is out of date; load the page again, and repeat the change"))
			return
		}
		next(w, r, s)
	}
}

// change returns a handler that runs an action.
func (c *Console) change(do action) handler {
	return c.guarded(func(w http.ResponseWriter, r *http.Request, s *session) {
		next, err := do(r, s)
		if err != nil {
			c.fail(w, r, s, http.StatusConflict, err)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, s *session) {
	c.change(func(*http.Request, *session) (string, error) {
		c.end(s.id)
		http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.opts.Secure, SameSite: http.SameSiteStrictMode}) //nolint:gosec // as in begin
		return "/login", nil
	})(w, r, s)
}

// loginPage shows the form for a token. A request with a valid one-time code logs in.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" {
		c.render(w, http.StatusOK, "login", &view{Title: "Log in", To: r.URL.Query().Get("to"), Issuers: c.issuers()})
		return
	}
	c.mu.Lock()
	until, known := c.codes[code]
	delete(c.codes, code)
	c.mu.Unlock()
	if !known || time.Now().After(until) {
		c.render(w, http.StatusForbidden, "login", &view{Title: "Log in", Issuers: c.issuers(), Error: "This link was used already, or is older than 5 minutes. Run toolhost console for a new one."})
		return
	}
	c.begin(w, r, host.LocalUser(), "")
}

// login logs a principal in with its token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	check := r.Clone(r.Context())
	check.Header.Set("Authorization", "Bearer "+strings.TrimSpace(r.PostFormValue("token")))
	p, err := c.opts.Authenticate(check)
	if err != nil || p == nil || r.PostFormValue("token") == "" {
		c.opts.Log.Warn("a login to the console was rejected", "from", r.RemoteAddr, "why", err)
		c.render(w, http.StatusForbidden, "login", &view{
			Title: "Log in", To: r.PostFormValue("to"), Issuers: c.issuers(), Error: "This token is not valid. Ask the operator for one: toolhost token create NAME --role approver.",
		})
		return
	}
	c.begin(w, r, p, check.Header.Get("Authorization"))
}
