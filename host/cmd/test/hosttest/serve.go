package hosttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// StartIssuer starts a third-party OpenID Connect provider. It returns the URL and the process of the provider.
func StartIssuer(t *testing.T) (string, *exec.Cmd) {
	t.Helper()
	script, err := filepath.Abs("../hosttest/testdata/issuer.mjs")
	Must(t, err)
	c := Node(t, script, Peer(t, ""))
	out, err := c.StdoutPipe()
	Must(t, err)
	Must(t, c.Start())
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

// Browse opens a page of a provider and follows redirects. It returns the address at which the provider ends the
// authorization, which is the first address that begins with the argument "end".
func Browse(t *testing.T, page, end string) *url.URL {
	t.Helper()
	jar, err := cookiejar.New(nil)
	Must(t, err)
	var last *url.URL
	web := &http.Client{Jar: jar, Timeout: time.Minute,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), end) {
				last = r.URL
				return http.ErrUseLastResponse
			}
			if len(via) > 10 {
				return fmt.Errorf("too many redirects")
			}
			return nil
		}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	Must(t, err)
	res, err := web.Do(req)
	Must(t, err)
	Must(t, res.Body.Close())
	if last == nil {
		t.Fatalf("the provider did not end the authorization: %s %s", res.Request.URL, res.Status)
	}
	return last
}

const principalConfig = `
principal "alice" {}
principal "bob" {}
principal "reader" {
  tools  = ["read"]
  fields = ["test"]
}
principal "elsewhere" { workspaces = [%q] }
principal "each" { workspaces = ["%s/*"] }
principal "busy" {
  limits {
    calls    = 1
    sessions = 2
    output   = "1 MiB"
  }
}
principal "boss" {
  role        = "approver"
  answers_for = ["alice"]
}
principal "root" { role = "administrator" }
principal "viewer" { role = "viewer" }
principal "dev" { rights = ["call", "log"] }
`

// Principals contains the clients of a server with several principals.
type Principals struct {
	T    *testing.T
	Dir  string // the workspace of the host
	More string // a directory with the workspaces x and y
	Base string
}

// NewPrincipals starts a server with a configuration of principals.
func NewPrincipals(t *testing.T, config string) *Principals {
	t.Helper()
	p := &Principals{T: t, Dir: MCPDir(t), More: t.TempDir()}
	var err error
	p.More, err = filepath.EvalSymlinks(p.More)
	Must(t, err)
	for _, name := range []string{"x", "y"} {
		Must(t, os.Mkdir(filepath.Join(p.More, name), 0o700))
	}
	file := filepath.Join(p.Dir, "toolhost.hcl")
	b, err := os.ReadFile(file)
	Must(t, err)
	if config == "" {
		config = fmt.Sprintf(principalConfig, filepath.Join(p.More, "x"), p.More)
	}
	Must(t, os.WriteFile(file, append(b, config...), 0o600))
	p.Base, _ = Serve(t, p.Dir)
	return p
}

// As creates a token for a principal and returns a client with this token.
func (p *Principals) As(name string, args ...string) *Client {
	p.T.Helper()
	out, err := Toolhost(p.T, p.Dir, append([]string{"token", "create", name}, args...)...).Output()
	Must(p.T, err)
	return &Client{p.T, p.Base, strings.TrimSpace(string(out))}
}

// Output runs a command and returns its output.
func (c *Client) Output(request string) string {
	c.T.Helper()
	var res struct {
		Output string
		Error  struct{ Message string }
	}
	Must(c.T, json.Unmarshal([]byte(c.Want(200, "", "POST", "/v1/run", request)), &res))
	return res.Output + res.Error.Message
}

// server is a running "toolhost serve".
type server struct {
	Cmd   *exec.Cmd
	Base  string
	Ended chan error
}

// ServerToken is the token of the servers that [StartServer] starts.
const ServerToken = "the-token-of-all-servers"

// StartServer starts a server and returns when the server listens. A non-nil socket is passed in the same way as a
// service manager passes it.
func StartServer(t *testing.T, dir string, socket *os.File, args ...string) *server {
	t.Helper()
	c := Toolhost(t, dir, append([]string{"serve"}, args...)...)
	if socket != nil {
		c = exec.Command("sh", append([]string{"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`, c.Path}, c.Args[1:]...)...)
		c.Dir, c.ExtraFiles = dir, []*os.File{socket}
	}
	c.Stderr, c.Env = nil, append(os.Environ(), "TOOLHOST_TOKEN="+ServerToken)
	said, err := c.StderrPipe()
	Must(t, err)
	Must(t, c.Start())
	s := &server{Cmd: c, Ended: make(chan error, 1)}
	lines := bufio.NewReader(said)
	for s.Base == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server does not listen: %v %s", err, line)
		}
		if _, addr, ok := strings.Cut(line, "listening on "); ok {
			s.Base = strings.TrimSpace(addr)
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		err := c.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, rest)
		}
		s.Ended <- err
	}()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return s
}

// WantEnd checks that a server ends without an error.
func (s *server) WantEnd(t *testing.T) {
	t.Helper()
	if err := <-s.Ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// Client sends requests to the HTTP API.
type Client struct {
	T     *testing.T
	Base  string
	Token string
}

// NewClient returns a client for the server with the address base. With an empty token, it does not authenticate.
func NewClient(t *testing.T, base, token string) *Client { return &Client{t, base, token} }

// Do sends a request and returns the status and the body of the response.
func (c *Client) Do(method, path, body string, header ...string) (int, string) {
	c.T.Helper()
	code, text, err := c.Try(c.T.Context(), method, path, body, header...)
	Must(c.T, err)
	return code, text
}

// Try sends a request as Do does. It returns the error of the connection.
func (c *Client) Try(ctx context.Context, method, path, body string, header ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// Want sends a request and checks the status, and that the body contains a text. It returns the body.
func (c *Client) Want(code int, contains, method, path, body string, header ...string) string {
	c.T.Helper()
	got, text := c.Do(method, path, body, header...)
	if got != code || !strings.Contains(text, contains) {
		c.T.Errorf("%s %s %.100s: %d %.400s", method, path, body, got, text)
	}
	return text
}

// FullDuplex returns a handler whose clients can send the rest of a request after the answer has begun. A reverse proxy
// needs this, because its server can answer before it has read the whole request.
func FullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		next.ServeHTTP(w, r)
	})
}
