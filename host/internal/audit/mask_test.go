package audit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/host/internal/audit"
)

func TestSecretsInTexts(t *testing.T) {
	m := audit.New([]string{"hunter2-long", "abc", "hunter2-long-er"})
	key := "ghp_" + strings.Repeat("a1B2", 9)
	for text, secret := range map[string]string{
		`curl -H "Authorization: Bearer abcdef123456" x`: "abcdef123456", `curl -H 'authorization: Basic dXNlcjpwYXNz' x`: "dXNlcjpwYXNz", `{"Authorization":"token s3cr3t"}`: "s3cr3t", `Proxy-Authorization: x1y2z3`: "x1y2z3",
		`git clone https://me:pa55@example.org/x`: "pa55", `GITHUB_TOKEN=zzz1 gh pr list`: "zzz1", `export DB_PASSWORD="a b c"`: "a b c", `x --password pa55 y`: "pa55", `x --api-key=k123 y`: "k123", `mysql --password='a b'`: "a b", `{"api_key": "qq12"}`: "qq12",
		"use " + key + " now": key, "sk-ant-api03-" + strings.Repeat("x", 30): "xxxxxxxx", "AKIA" + strings.Repeat("Z", 16): "ZZZZ", `echo xoxb-1234567890-abc`: "1234567890", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM": "SflKxw", "glpat-" + strings.Repeat("k", 20): "kkkk",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----": "MIIabc", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb" + strings.Repeat("Q", 9000): "b3Blb", `curl -u me:pa55w x`: "pa55w", `Cookie: sid=12345; b=c`: "12345", `echo hunter2-long-er`: "hunter2", `aws_secret_access_key = wJalr`: "wJalr",
		`token: t0ps3cret`: "t0ps3cret", `https://x.test/?access_token=deadbeef&a=b`: "deadbeef",
	} {
		got := m.Text(text)
		if strings.Contains(got, secret) || !strings.Contains(got, audit.Mask) {
			t.Errorf("%s\n\t%s", text, got)
		}
	}
	for _, text := range []string{`git log --author=me`, `ls -la abc`, `grep -rn "token" src`, `echo password`, `git commit -m "rotate the tokens"`, `https://example.org/a:b@c`, `cat secrets/readme.md`, `go test -run TestToken ./...`, `http://localhost:8080/x@y`, `tokenizer=fast`, `monkey: banana`} {
		if got := m.Text(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestArguments(t *testing.T) {
	m := audit.New(nil)
	for raw, want := range map[string]string{
		``: `{}`, `{"file_path":"a","limit":5}`: `{"file_path":"a","limit":5}`, `{"token":"x","max_tokens":5,"password":{"a":1},"authorization":null}`: `{"authorization":null,"max_tokens":5,"password":"********","token":"********"}`,
		`{"headers":[{"X-Api-Key":"k","Accept":"y"}]}`: `{"headers":[{"Accept":"y","X-Api-Key":"********"}]}`, `{"n":12345678901234567890,"html":"<a>"}`: `{"n":12345678901234567890,"html":"<a>"}`, `{"with_token":true}`: `{"with_token":true}`, `{"pwd":"/x","author":"me"}`: `{"author":"me","pwd":"/x"}`,
		`{`: `{"malformed":"{"}`,
	} {
		if got := m.Arguments([]byte(raw)); got != want {
			t.Errorf("%s\n\tgot    %s\n\twanted %s", raw, got, want)
		}
	}
	long := m.Arguments([]byte(`{"content":"` + strings.Repeat("ä", 5000) + `","command":"ls"}`))
	if len(long) > 1200 || !strings.Contains(long, "(10000 bytes)") || !strings.Contains(long, `"command":"ls"`) || !utf8.ValidString(long) || !json.Valid([]byte(long)) {
		t.Errorf("%d bytes: %.100s", len(long), long)
	}
	many := m.Arguments([]byte(`{"a":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]}`))
	if len(many) > 2000 || !strings.Contains(many, "4900 more") {
		t.Errorf("%d bytes", len(many))
	}
	wide := m.Arguments([]byte(`{"a":["` + strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 1000)+`","`, 90), `","`) + `"]}`))
	if !strings.HasPrefix(wide, `{"omitted":`) {
		t.Errorf("%d bytes", len(wide))
	}
	deep := m.Arguments([]byte(strings.Repeat(`{"a":`, 500) + `"ghp_` + strings.Repeat("a", 36) + `"` + strings.Repeat(`}`, 500)))
	if strings.Contains(deep, "ghp_") {
		t.Error(deep)
	}
}

func BenchmarkArguments(b *testing.B) {
	m := audit.New([]string{"hunter2-long"})
	for b.Loop() {
		m.Arguments([]byte(`{"encoding":"auto","file_path":"letters","if_changed":false,"offset":1,"show_line_numbers":false}`))
	}
}

func BenchmarkCommand(b *testing.B) {
	m := audit.New(nil)
	for b.Loop() {
		m.Arguments([]byte(`{"command":"cd sub && go test ./... 2>&1 | grep -v ok | tail -20 && git commit -m 'a message of some length that says what was done' && git push origin main"}`))
	}
}

func TestCommand(t *testing.T) {
	m := audit.New([]string{"the secret word"})
	long := strings.Repeat("x ", 4000)
	if got := m.Command(long + "say 'the secret word' --token abcdefgh " + long); got != long+"say '"+audit.Mask+"' --token "+audit.Mask+" "+long {
		t.Errorf("%.60s…%s", got, got[len(got)-60:])
	}
	if got := m.Command(strings.Repeat("y", 1<<17)); len(got) != 1<<16+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}
