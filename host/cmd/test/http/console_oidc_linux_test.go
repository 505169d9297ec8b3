//go:build oracle

package http

import (
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestConsoleProviderLogin checks that a person can log in to the console in a browser, through a certified OpenID
// Connect provider. The console must reject a login that began in another browser. It must also reject a person whose
// claims match no principal.
func TestConsoleProviderLogin(t *testing.T) {
	t.Parallel()
	issuer, _ := hosttest.StartIssuer(t)
	config := func(group string) string {
		return fmt.Sprintf(`
issuer "company" {
  url       = %q
  audience  = "https://toolhost.example/mcp"
  resource  = "https://toolhost.example/mcp"
  scopes    = ["tools"]
  client_id = "console"
}
principal "staff" {
  issuer = "company"
  claims = { groups = %q }
  role   = "administrator"
}
`, issuer, group)
	}
	p := hosttest.NewPrincipals(t, config("engineering"))
	ctx := hosttest.Browser(t)
	var text string
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Navigate(p.Base+"/audit?text=x"), hosttest.Press(`form[action="/login/provider"] button`), hosttest.Appears(".who"), hosttest.Reads(".who", &text)))
	if !strings.Contains(text, "staff/alice") {
		t.Errorf("the page shows the person %q", text)
	}
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Location(&text)))
	if text != p.Base+"/audit?text=x" {
		t.Errorf("the login leads to %s", text)
	}
	hosttest.Shot(ctx, t, "login")

	// The provider's answer to a login that began in another browser is refused.
	begin := func() (address string, jar http.CookieJar) {
		jar, err := cookiejar.New(nil)
		hosttest.Must(t, err)
		res, err := (&http.Client{Jar: jar}).PostForm(p.Base+"/login/provider", url.Values{"issuer": {"company"}})
		hosttest.Must(t, err)
		defer res.Body.Close()
		b := new(strings.Builder)
		hosttest.Must(t, res.Write(b))
		_, rest, _ := strings.Cut(b.String(), `id="continue" href="`)
		address, _, _ = strings.Cut(rest, `"`)
		return html.UnescapeString(address), jar
	}
	get := func(jar http.CookieJar, address string) (int, string) {
		res, err := (&http.Client{Jar: jar}).Get(address)
		hosttest.Must(t, err)
		defer res.Body.Close()
		b := new(strings.Builder)
		hosttest.Must(t, res.Write(b))
		return res.StatusCode, b.String()
	}
	address, _ := begin()
	for _, want := range []string{"code_challenge_method=S256", "response_type=code", "client_id=console", "resource=https%3A%2F%2Ftoolhost.example%2Fmcp"} {
		if !strings.Contains(address, want) {
			t.Errorf("the address lacks %s: %s", want, address)
		}
	}
	answer := hosttest.Browse(t, address, p.Base+"/login/callback").String()
	if code, body := get(nil, answer); code != http.StatusForbidden || !strings.Contains(body, "did not begin in this browser") {
		t.Errorf("a login of another browser: %d %s", code, body)
	}
	address, jar := begin()
	answer = hosttest.Browse(t, address, p.Base+"/login/callback").String()
	for what, changed := range map[string]string{"another state": strings.Replace(answer, "state=", "state=x", 1), "no code": p.Base + "/login/callback?state=none"} {
		if code, _ := get(jar, changed); code != http.StatusForbidden {
			t.Errorf("%s: %d", what, code)
		}
	}
	if code, body := get(jar, answer); code != http.StatusOK || !strings.Contains(body, "Logged in") {
		t.Errorf("the login: %d %s", code, body)
	}
	if code, _ := get(jar, answer); code != http.StatusForbidden {
		t.Errorf("an answer was accepted twice: %d", code)
	}

	// A person who matches no principal is refused.
	other := hosttest.NewPrincipals(t, config("sales"))
	base := p.Base
	p.Base = other.Base
	address, jar = begin()
	if code, body := get(jar, hosttest.Browse(t, address, other.Base+"/login/callback").String()); code != http.StatusForbidden || !strings.Contains(body, "no principal of this server belongs to you") {
		t.Errorf("an unknown person: %d %s", code, body)
	}
	p.Base = base
}
