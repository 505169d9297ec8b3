//go:build oracle

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startIssuer starts a third-party OpenID Connect provider. It returns the URL and the process of the provider.
func startIssuer(t *testing.T) (string, *exec.Cmd) {
	t.Helper()
	script, err := filepath.Abs("testdata/peers/issuer.mjs")
	must(t, err)
	c := node(t, script, peer(t, ""))
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "http://") {
			return line, c
		}
	}
	t.Fatalf("the provider does not listen: %v", lines.Err())
	return "", nil
}

// The function "issued" returns an access token from the provider. The argument "client" names a client in the
// configuration of the provider. The argument "audience" is the requested audience.
func issued(t *testing.T, issuer, client, audience string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}}
	if audience != "" {
		form.Set("scope", "call")
		form.Set("resource", audience)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+"/token", strings.NewReader(form.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(client, "secret-of-"+client)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { must(t, res.Body.Close()) }()
	var answer struct {
		Token string `json:"access_token"`
	}
	must(t, json.NewDecoder(res.Body).Decode(&answer))
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
	issuer, provider := startIssuer(t)
	p := newPrincipals(t, fmt.Sprintf(`
issuer "company" {
  url      = %q
  audience = %q
}
principal "staff" {
  issuer = "company"
  claims = { groups = "engineering" }
}
`, issuer, audience))
	as := func(name, audience string) *client { return &client{t, p.base, issued(t, issuer, name, audience)} }
	builder := as("builder", audience)
	builder.want(200, `"output":"hi\n"`, "POST", "/v1/run", `{"command":"echo hi"}`)
	for what, c := range map[string]*client{
		"another audience": as("builder", "https://other.example"), "another subject": as("stranger", audience), "not signed": as("builder", ""),
		"changed": {t, p.base, builder.token[:len(builder.token)-8] + "AAAAAAAA"},
	} {
		if code, body := c.do("POST", "/v1/run", `{"command":"touch owned"}`); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	must(t, provider.Process.Kill())
	_ = provider.Wait()
	builder.want(200, `"output":"still\n"`, "POST", "/v1/run", `{"command":"echo still"}`)
	eventually(t, "both calls are in the log", func() bool {
		out, err := toolhost(t, p.dir, "log", "--principal", "staff/builder", "--json").Output()
		return err == nil && strings.Count(string(out), `"principal":"staff/builder"`) == 2
	})
}
