package durable

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTerminate checks that after SIGTERM, a server lets running calls end, refuses new calls, and cancels calls that
// take too long. A second SIGTERM must cancel all calls at once.
func TestTerminate(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	s := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	c := hosttest.NewClient(t, s.Base, hosttest.ServerToken)
	c.Want(200, "ok", "GET", "/readyz", "")
	running := make(chan string, 1)
	go func() {
		_, body := c.Do("POST", "/v1/run", `{"command":"touch began; while [ ! -e end ]; do sleep .05; done; echo whole"}`)
		running <- body
	}()
	began := func() bool {
		_, err := os.Stat(filepath.Join(dir, "began"))
		return err == nil
	}
	hosttest.Wait(t, "the call runs", began)
	hosttest.Must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	hosttest.Wait(t, "the server is not ready", func() bool {
		code, _ := c.Do("GET", "/readyz", "")
		return code == 503
	})
	c.Want(200, "ok", "GET", "/healthz", "")
	body := c.Want(503, `"kind":"unavailable","code":1007,`, "POST", "/v1/run", `{"command":"touch refused"}`)
	if !strings.Contains(body, `"retry_after":1`) {
		t.Error(body)
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if body := <-running; !strings.Contains(body, `"output":"whole`) {
		t.Error(body)
	}
	s.WantEnd(t)
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("a refused call ran")
	}

	config, err := os.ReadFile(filepath.Join(dir, "toolhost.hcl"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "short.hcl"), append(config, "\nhost { shutdown_timeout = \"100ms\" }\n"...), 0o600))
	for _, flags := range [][]string{{"--config", "short.hcl"}, nil} {
		hosttest.Must(t, os.Remove(filepath.Join(dir, "began")))
		s = hosttest.StartServer(t, dir, nil, append(flags, "--listen", "127.0.0.1:0")...)
		c.Base = s.Base
		go func() {
			_, body := c.Do("POST", "/v1/run", `{"command":"touch began; sleep 60"}`)
			running <- body
		}()
		hosttest.Wait(t, "the call runs", began)
		hosttest.Must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
		if flags == nil { // do not wait for the whole shutdown timeout
			hosttest.Wait(t, "the server is not ready", func() bool {
				code, _ := c.Do("GET", "/readyz", "")
				return code == 503
			})
			hosttest.Must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
		}
		if body := <-running; !strings.Contains(body, `"kind":"canceled"`) || !strings.Contains(body, "bash was stopped, because the host was stopped while it ran") {
			t.Error(body)
		}
		s.WantEnd(t)
	}
}

// restartCallers is the number of callers that use a server while it is replaced.
const restartCallers = 64

// TestRestartRefusesNothing replaces a server under load. In one case, another server acquires the socket. In the other
// case, a service manager keeps the socket open. Every call must succeed.
func TestRestartRefusesNothing(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	first := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	address := strings.TrimPrefix(first.Base, "http://")
	load := startLoad(t, first.Base)
	for _, different := range []struct {
		env, flag, want string
	}{
		{"", "--", "clients of the running server would be refused or misled: it has other tokens ($TOOLHOST_TOKEN"},
		{"TOOLHOST_TOKEN=" + hosttest.ServerToken, "--workspace=" + t.TempDir(), "the workspace is "},
	} { // in the following cases, the running server must continue
		c := hosttest.Toolhost(t, dir, "serve", "--listen", address, "--take-over", different.flag)
		c.Stderr, c.Env = nil, append(os.Environ(), different.env)
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), different.want) {
			t.Errorf("%v: %s, wanted %s", err, out, different.want)
		}
	}
	for range 2 {
		load.more()
		next := hosttest.StartServer(t, dir, nil, "--listen", address, "--take-over")
		first.WantEnd(t)
		first = next
	}
	load.more()
	load.stop(t)
	hosttest.Must(t, first.Cmd.Process.Signal(syscall.SIGTERM))
	first.WantEnd(t)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.Must(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	hosttest.Must(t, err)
	first = hosttest.StartServer(t, dir, socket)
	load = startLoad(t, "http://"+l.Addr().String())
	for range 2 {
		load.more()
		hosttest.Must(t, first.Cmd.Process.Signal(syscall.SIGTERM))
		first.WantEnd(t)
		first = hosttest.StartServer(t, dir, socket)
	}
	load.more()
	load.stop(t)
	hosttest.Must(t, first.Cmd.Process.Signal(syscall.SIGTERM))
	first.WantEnd(t)

	c := hosttest.Toolhost(t, dir, "serve", "--listen", address, "--take-over")
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
	req.Header.Set("Authorization", "Bearer "+hosttest.ServerToken)
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

// more waits until the callers have made some further calls.
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
