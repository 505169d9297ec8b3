package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// server is a running "toolhost serve".
type server struct {
	cmd   *exec.Cmd
	base  string
	ended chan error
}

const serverToken = "the-token-of-all-servers"

// startServer starts a server and returns when the server listens. A non-nil socket is passed in the same way as a
// service manager passes it.
func startServer(t *testing.T, dir string, socket *os.File, args ...string) *server {
	t.Helper()
	c := toolhost(t, dir, append([]string{"serve"}, args...)...)
	if socket != nil {
		c = exec.Command("sh", append([]string{"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`, c.Path}, c.Args[1:]...)...)
		c.Dir, c.ExtraFiles = dir, []*os.File{socket}
	}
	c.Stderr, c.Env = nil, append(os.Environ(), "TOOLHOST_TOKEN="+serverToken)
	said, err := c.StderrPipe()
	must(t, err)
	must(t, c.Start())
	s := &server{cmd: c, ended: make(chan error, 1)}
	lines := bufio.NewReader(said)
	for s.base == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server does not listen: %v %s", err, line)
		}
		if _, addr, ok := strings.Cut(line, "listening on "); ok {
			s.base = strings.TrimSpace(addr)
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		err := c.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, rest)
		}
		s.ended <- err
	}()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return s
}

// wantEnd checks that a server ends without an error.
func (s *server) wantEnd(t *testing.T) {
	t.Helper()
	if err := <-s.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestTerminate checks that after SIGTERM, a server lets running calls end, refuses new calls, and cancels calls that
// take too long. A second SIGTERM must cancel all calls at once.
func TestTerminate(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	s := startServer(t, dir, nil, "--listen", "127.0.0.1:0")
	c := &client{t, s.base, serverToken}
	c.want(200, "ok", "GET", "/readyz", "")
	running := make(chan string, 1)
	go func() {
		_, body := c.do("POST", "/v1/run", `{"command":"touch began; while [ ! -e end ]; do sleep .05; done; echo whole"}`)
		running <- body
	}()
	began := func() bool {
		_, err := os.Stat(filepath.Join(dir, "began"))
		return err == nil
	}
	eventually(t, "the call runs", began)
	must(t, s.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the server is not ready", func() bool {
		code, _ := c.do("GET", "/readyz", "")
		return code == 503
	})
	c.want(200, "ok", "GET", "/healthz", "")
	body := c.want(503, `"kind":"unavailable"`, "POST", "/v1/run", `{"command":"touch refused"}`)
	if !strings.Contains(body, `"retry_after":1`) {
		t.Error(body)
	}
	must(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if body := <-running; !strings.Contains(body, `"output":"whole`) {
		t.Error(body)
	}
	s.wantEnd(t)
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("a refused call ran")
	}

	config, err := os.ReadFile(filepath.Join(dir, "toolhost.hcl"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "short.hcl"), append(config, "\nhost { shutdown_timeout = \"100ms\" }\n"...), 0o600))
	for _, flags := range [][]string{{"--config", "short.hcl"}, nil} {
		must(t, os.Remove(filepath.Join(dir, "began")))
		s = startServer(t, dir, nil, append(flags, "--listen", "127.0.0.1:0")...)
		c.base = s.base
		go func() {
			_, body := c.do("POST", "/v1/run", `{"command":"touch began; sleep 60"}`)
			running <- body
		}()
		eventually(t, "the call runs", began)
		must(t, s.cmd.Process.Signal(syscall.SIGTERM))
		if flags == nil { // do not wait for the whole shutdown timeout
			eventually(t, "the server is not ready", func() bool {
				code, _ := c.do("GET", "/readyz", "")
				return code == 503
			})
			must(t, s.cmd.Process.Signal(syscall.SIGTERM))
		}
		if body := <-running; !strings.Contains(body, `"kind":"canceled"`) || !strings.Contains(body, "bash was stopped, because the host was stopped while it ran") {
			t.Error(body)
		}
		s.wantEnd(t)
	}
}

// restartCallers is the number of callers that use a server while it is replaced.
const restartCallers = 64

// TestRestartRefusesNothing replaces a server under load. In one case, another server acquires the socket. In the other
// case, a service manager keeps the socket open. Every call must succeed.
func TestRestartRefusesNothing(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	first := startServer(t, dir, nil, "--listen", "127.0.0.1:0")
	address := strings.TrimPrefix(first.base, "http://")
	load := startLoad(t, first.base)
	for _, different := range []struct {
		env, flag, want string
	}{
		{"", "--", "clients of the running server would be refused or misled: it has other tokens ($TOOLHOST_TOKEN"},
		{"TOOLHOST_TOKEN=" + serverToken, "--workspace=" + t.TempDir(), "the workspace is "},
	} { // in the following cases, the running server must continue
		c := toolhost(t, dir, "serve", "--listen", address, "--take-over", different.flag)
		c.Stderr, c.Env = nil, append(os.Environ(), different.env)
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), different.want) {
			t.Errorf("%v: %s, wanted %s", err, out, different.want)
		}
	}
	for range 2 {
		load.more()
		next := startServer(t, dir, nil, "--listen", address, "--take-over")
		first.wantEnd(t)
		first = next
	}
	load.more()
	load.stop(t)
	must(t, first.cmd.Process.Signal(syscall.SIGTERM))
	first.wantEnd(t)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	must(t, err)
	first = startServer(t, dir, socket)
	load = startLoad(t, "http://"+l.Addr().String())
	for range 2 {
		load.more()
		must(t, first.cmd.Process.Signal(syscall.SIGTERM))
		first.wantEnd(t)
		first = startServer(t, dir, socket)
	}
	load.more()
	load.stop(t)
	must(t, first.cmd.Process.Signal(syscall.SIGTERM))
	first.wantEnd(t)

	c := toolhost(t, dir, "serve", "--listen", address, "--take-over")
	c.Stderr = nil
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "no running host that uses this state directory listens there") {
		t.Errorf("%s %v", out, err)
	}
}

// load is a set of callers that send calls to a server until stop is called.
type load struct {
	done   atomic.Bool
	calls  atomic.Int64
	failed chan string
	wg     sync.WaitGroup
}

func startLoad(t *testing.T, base string) *load {
	t.Helper()
	l := &load{failed: make(chan string, restartCallers)}
	for i := range restartCallers {
		l.wg.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for n := 0; !l.done.Load(); n++ {
				if problem := l.call(&http.Client{Transport: transport}, base, fmt.Sprint("s", i), n); problem != "" {
					l.failed <- problem
					return
				}
				l.calls.Add(1)
			}
		})
	}
	return l
}

// call reads a file with a tool. It returns a description of the problem, or "".
func (l *load) call(c *http.Client, base, session string, n int) string {
	body, _ := json.Marshal(map[string]string{"session": session, "command": "read notes.txt --limit 1"})
	req, err := http.NewRequest(http.MethodPost, base+"/v1/run", strings.NewReader(string(body)))
	if err != nil {
		return err.Error()
	}
	req.GetBody = nil // prevent the client from repeating the request
	req.Header.Set("Authorization", "Bearer "+serverToken)
	res, err := c.Do(req)
	if err != nil {
		return fmt.Sprintf("call %d: %v", n, err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(out), `"output":"one"`) {
		return fmt.Sprintf("call %d: %d %s %v", n, res.StatusCode, out, err)
	}
	return ""
}

// The method "more" waits until the callers have made some further calls.
func (l *load) more() {
	for until := l.calls.Load() + 5*restartCallers; l.calls.Load() < until && len(l.failed) == 0; {
		time.Sleep(time.Millisecond)
	}
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	l.done.Store(true)
	l.wg.Wait()
	close(l.failed)
	for problem := range l.failed {
		t.Error(problem)
	}
	t.Logf("%d calls", l.calls.Load())
}
