package bash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// host is a test implementation of the host. It runs the plugin and stores the sessions' state.
type host struct {
	t      *testing.T
	plugin tool.Plugin
	close  func()
	bash   *bash
	state  string // the plugin's state directory
	warm   bool   // true if each call waits for a ready shell
}

// idle returns the process ids of the shells that wait for a command.
func (h *host) idle() []int {
	if h.bash == nil || h.bash.runner == nil {
		return nil
	}
	return h.bash.runner.Idle()
}

// newHost starts a plugin in this process. At the end of the test, it closes the plugin and checks that no process
// is left.
func newHost(t *testing.T) *host {
	t.Helper()
	return newHostWith(t, `{}`)
}

// eachWay runs a test twice: once with a new shell for each command, and once with prestarted shells.
func eachWay(t *testing.T, test func(t *testing.T, h *host)) {
	t.Helper()
	for name, config := range map[string]string{"cold": `{"warm_shells":0}`, "warm": `{}`} {
		t.Run(name, func(t *testing.T) {
			h := newHostWith(t, config)
			h.warm = name == "warm"
			test(t, h)
		})
	}
}

// newHostWith returns a host whose plugin has the given configuration. Without a configuration, the login shell is
// disabled, because the login environment depends on the machine's user.
func newHostWith(t *testing.T, config string) *host {
	t.Helper()
	b := newBash()
	b.login = false
	def := b.plugin()
	p, err := sdk.New(def)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, plugin: p, close: def.Close, bash: b, state: t.TempDir()}
	if diags, err := p.Configure(t.Context(), tool.Configuration{Config: json.RawMessage(config), StateDir: h.state}); err != nil || len(diags) > 0 {
		t.Fatal(diags, err)
	}
	t.Cleanup(func() {
		h.close()
		noneLeft(t)
	})
	return h
}

// noneLeft fails the test if a process of a command still exists, even as a zombie.
func noneLeft(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if left = ours(); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("processes are left: %s", strings.Join(left, "; "))
		}
	}
}

// ours returns the processes that commands started: the descendants of this process, and the processes with
// the mark of a command. It skips processes in the session of this process, because the tests started them.
func ours() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	mark := []byte(fmt.Sprintf("TOOLHOST_TREE=%d-", os.Getpid()))
	self := strings.Fields(statOf(os.Getpid()))
	var left []string
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		f := strings.Fields(statOf(pid)) // f contains the state, parent, process group and session
		if pid == os.Getpid() || len(f) < 4 {
			continue
		}
		env, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(env, mark) || f[1] == strconv.Itoa(os.Getpid()) && f[3] != self[3] {
			cmd, _ := os.ReadFile(dir + "/cmdline")
			left = append(left, fmt.Sprintf("%d %s %q", pid, f[0], cmd))
		}
	}
	return left
}

func statOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return string(b[bytes.LastIndexByte(b, ')')+1:])
}

// sess is a session. It stores the state between calls, as the host does.
type sess struct {
	h     *host
	t     *testing.T
	id    string
	cwd   string
	roots []tool.Root
	state []byte
}

var serial atomic.Int64

// ready waits until the shell for the session's next command is started. It returns at once if the host
// prestarts no shells.
func (s *sess) ready() {
	if !s.h.warm {
		return
	}
	if len(s.state) == 0 {
		shells, err := s.h.bash.shells()
		if err != nil {
			s.t.Fatal(err)
		}
		path, err := shell.Find()
		if err != nil {
			s.t.Fatal(err)
		}
		shells.Prepare(s.id, shell.Seed{Bash: path, Dir: s.cwd, Env: shell.Environment(os.Environ())})
	}
	s.h.idle()
}

func (h *host) session() *sess {
	dir, err := filepath.EvalSymlinks(h.t.TempDir())
	if err != nil {
		h.t.Fatal(err)
	}
	return &sess{h: h, t: h.t, id: fmt.Sprint("s", serial.Add(1)), cwd: dir, roots: []tool.Root{{Path: dir, Writable: true}}}
}

// answer is a result with its data decoded.
type answer struct {
	*tool.Result
	data
	raw map[string]any
}

// text returns the text that the model reads.
func (a *answer) text() string {
	if a.Error != nil {
		return a.Error.Message
	}
	return a.Output
}

func (s *sess) run(command string) *answer {
	s.t.Helper()
	return s.call(s.t.Context(), args{Command: command})
}

func (s *sess) call(ctx context.Context, in args) *answer {
	s.t.Helper()
	return s.callPeer(ctx, in, &peer{})
}

func (s *sess) callPeer(ctx context.Context, in args, p tool.Peer) *answer {
	s.t.Helper()
	s.ready()
	raw, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	res := s.h.plugin.Call(ctx, &tool.Call{ID: "1", Tool: "bash", Arguments: raw, SessionID: s.id, Cwd: s.cwd, Roots: s.roots, SessionState: s.state}, p)
	if res.SessionState != nil {
		s.state = res.SessionState
	}
	if res.Cwd != "" {
		s.cwd = res.Cwd
	}
	a := &answer{Result: res}
	if len(res.Data) > 0 {
		if err := json.Unmarshal(res.Data, &a.data); err != nil {
			s.t.Fatal(err)
		}
		_ = json.Unmarshal(res.Data, &a.raw)
	}
	return a
}

// ok runs a command that must succeed, and returns its standard output.
func (s *sess) ok(command string) string {
	s.t.Helper()
	a := s.run(command)
	if a.Error != nil {
		s.t.Fatalf("%s: %s", command, a.Error.Message)
	}
	return a.Stdout
}

// peer records the output that the plugin streams to the host.
type peer struct {
	mu     sync.Mutex
	chunks [3][]string
	seen   chan struct{} // if not nil, receives a value for each chunk of output
}

func (p *peer) Progress(string, map[string]any) {}

func (p *peer) Output(s tool.Stream, chunk []byte) {
	p.mu.Lock()
	p.chunks[s] = append(p.chunks[s], string(chunk))
	p.mu.Unlock()
	if p.seen != nil {
		p.seen <- struct{}{}
	}
}

func (p *peer) all(s tool.Stream) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.chunks[s], "")
}

func (p *peer) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk}, nil
}

func (p *peer) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return nil, nil
}
