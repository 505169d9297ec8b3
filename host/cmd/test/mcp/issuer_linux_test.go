//go:build oracle

package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// issued returns an access token from the provider. The argument "client" names a client in the
// configuration of the provider. The argument "audience" is the requested audience.
func issued(t *testing.T, issuer, client, audience string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}}
	if audience != "" {
		form.Set("scope", "call")
		form.Set("resource", audience)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+"/token", strings.NewReader(form.Encode()))
	hosttest.Must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(client, "secret-of-"+client)
	res, err := http.DefaultClient.Do(req)
	hosttest.Must(t, err)
	defer func() { hosttest.Must(t, res.Body.Close()) }()
	var answer struct {
		Token string `json:"access_token"`
	}
	hosttest.Must(t, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Token == "" {
		t.Fatalf("no token for %s: %s", client, res.Status)
	}
	return answer.Token
}

// TestRealIssuer checks tokens of a certified provider. The cases are a known subject, a wrong audience, a subject that
// matches no principal, a token without a signature, and a provider that does not run any more.
func TestRealIssuer(t *testing.T) {
	t.Parallel()
	const audience = "https://toolhost.example"
	issuer, provider := hosttest.StartIssuer(t)
	p := hosttest.NewPrincipals(t, fmt.Sprintf(`
issuer "company" {
  url      = %q
  audience = %q
}
principal "staff" {
  issuer = "company"
  claims = { groups = "engineering" }
}
`, issuer, audience))
	as := func(name, audience string) *hosttest.Client {
		return hosttest.NewClient(t, p.Base, issued(t, issuer, name, audience))
	}
	builder := as("builder", audience)
	builder.Want(200, `"output":"hi\n"`, "POST", "/v1/run", `{"command":"echo hi"}`)
	for what, c := range map[string]*hosttest.Client{
		"another audience": as("builder", "https://other.example"), "another subject": as("stranger", audience), "not signed": as("builder", ""),
		"changed": hosttest.NewClient(t, p.Base, builder.Token[:len(builder.Token)-8]+"AAAAAAAA"),
	} {
		if code, body := c.Do("POST", "/v1/run", `{"command":"touch owned"}`); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	hosttest.Must(t, provider.Process.Kill())
	_ = provider.Wait()
	builder.Want(200, `"output":"still\n"`, "POST", "/v1/run", `{"command":"echo still"}`)
	hosttest.Wait(t, "both calls are in the log", func() bool {
		out, err := hosttest.Toolhost(t, p.Dir, "log", "--principal", "staff/builder", "--json").Output()
		return err == nil && strings.Count(string(out), `"principal":"staff/builder"`) == 2
	})
}
