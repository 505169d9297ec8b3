package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolhost.dev/sdk/child"
)

// server is the process of a local server.
type server struct {
	*child.Process
	wire *wire
	said tail
	once sync.Once
}

// endWait is the maximum time between the end of a process's output and the end of the process.
const endWait = 500 * time.Millisecond

// startServer starts a local server and connects a wire to the server's standard input and output.
func startServer(c *Config, schemas *schemas, heard func(*jsonrpc.Request) bool) (*server, error) {
	s := new(server)
	cmd := exec.Command(c.Command[0], c.Command[1:]...) //nolint:gosec // running what the operator configured is the purpose
	cmd.Dir = c.Cwd
	cmd.Env = environment(os.Environ(), c.Env)
	cmd.Stderr = &s.said
	cmd.WaitDelay = endWait // child processes of the server can keep its standard error open
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	s.Process, err = child.Start(cmd)
	_ = inR.Close()
	_ = outW.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server's program cannot be run: %w", err), inW.Close(), outR.Close())
	}
	s.wire = newWire(outR, inW, schemas, func() { s.stop(time.Second) }, heard)
	go func() {
		<-s.Exited()
		time.Sleep(endWait)
		_ = outR.Close()
	}()
	return s, nil
}

// environment returns the environment variables of the server. It omits the variables with which the host configures
// the plugin.
func environment(own []string, extra map[string]string) []string {
	var env []string
	for _, e := range own {
		if !strings.HasPrefix(e, "PLUGIN_") && !strings.HasPrefix(e, "TOOLHOST_") {
			env = append(env, e)
		}
	}
	for k, v := range extra {
		env = append(env, k+"="+v)
	}
	return env
}

// stop closes the server's standard input, which asks the server to end. After the duration "grace", it kills the
// server and its child processes. It returns when the server has ended.
func (s *server) stop(grace time.Duration) {
	s.once.Do(func() {
		s.wire.closeInput()
		if grace > 0 {
			select {
			case <-s.Exited():
			case <-time.After(grace):
			}
		}
		s.Kill()
	})
	<-s.Exited()
}

// died reports whether the server has ended without a call of stop.
func (s *server) died() bool {
	if !s.wire.ended() {
		return false
	}
	select {
	case <-s.Exited():
		return true
	case <-time.After(endWait):
		return false
	}
}

// exitText describes how the server ended. It must be called only after the server has ended.
func (s *server) exitText() string {
	if err := s.Err(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return err.Error()
	}
	return "exit status 0"
}

// maxSaid is the maximum number of bytes of standard error that are kept.
const maxSaid = 4 << 10

// tail is a writer for the server's standard error. It writes the text to the host's log and keeps the last bytes of
// the text.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - maxSaid; over > 0 {
		t.last = append([]byte(nil), t.last[over:]...)
	}
	_, _ = stderr.Write(p)
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(clean(string(t.last), maxSaid))
}
