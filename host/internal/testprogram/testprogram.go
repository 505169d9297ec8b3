// Package testprogram implements programs of plugins that run in the process of a test. The host reaches them over
// connections in memory, so a test starts no process. Most callers want [New] and [Programs.Write].
//
// A program is a file with words that describe the variant of its plugin, such as "version=2.0.0 add=extra". A host
// therefore sees another binary if the words change. Package tests can use these words:
//
//	name=N version=V    what the plugin reports; the default is "fake" and "1.0.0"
//	drop=TOOL add=TOOL  a tool that is missing, and an additional tool
//	role=ROLE           the role of the additional tool
//	only=yes            the plugin has no other tools than the additional tool and grow
//	require=yes         echo needs a second parameter
//	reword=yes          echo has another description
//	fails=yes           each call of echo fails
//	needs=exec          the plugin needs the permission to start processes
//	newer=yes           the plugin needs a newer host
//	unhealthy=TEXT      the plugin reports that it is not healthy
//	keeps=TEXT          the plugin keeps something for later calls
//	discovers=yes       the plugin discovers its tools; see the tool grow
//	offers=yes          the plugin has a prompt
//	mute=yes            the plugin serves no hooks
//	start=exit          the program ends before it serves the plugin
//	start=hang          the program never serves the plugin
//	start=deaf          the program never answers
//	gate=NAME           the program waits at a gate before it serves the plugin
package testprogram

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host/internal/supervisor"
)

// firstPID is greater than the largest id of a process, so that no program has the id of a process.
const firstPID = 1 << 23

// Programs implements [supervisor.Programs]. It is safe for concurrent use.
type Programs struct {
	t testing.TB

	mu      sync.Mutex
	started []*Program
	gates   map[string]*Gate
}

// New returns programs for one test. At the end of the test, all gates are opened, and it is an error if a program
// still runs.
func New(t testing.TB) *Programs {
	p := &Programs{t: t, gates: make(map[string]*Gate)}
	t.Cleanup(func() {
		p.Open()
		for _, program := range p.Running() {
			t.Errorf("the program %d of %s still runs", program.pid, program.path)
			program.Kill()
		}
	})
	return p
}

// Write writes the program in the file at a path. It replaces the file in one step, as an installer does.
func (p *Programs) Write(path, words string) {
	p.t.Helper()
	if err := os.WriteFile(path+".new", []byte(words), 0o700); err != nil { //nolint:gosec // the host runs only executable files
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
}

// Start implements [supervisor.Programs].
func (p *Programs) Start(path string, _ *supervisor.Spec) (supervisor.Program, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	program := &Program{path: path, all: p, words: make(map[string]string), ended: make(chan struct{})}
	for word := range strings.FieldsSeq(string(text)) {
		name, value, _ := strings.Cut(word, "=")
		program.words[name] = value
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	program.pid = firstPID + len(p.started)
	p.started = append(p.started, program)
	return program, nil
}

// Started returns all programs that were started, in this order.
func (p *Programs) Started() []*Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.started)
}

// Running returns the programs that have not ended, in the order of their starts.
func (p *Programs) Running() []*Program {
	return slices.DeleteFunc(p.Started(), (*Program).Ended)
}

// Program is a running program. It implements [supervisor.Program].
type Program struct {
	all   *Programs
	path  string
	words map[string]string
	pid   int

	sick   atomic.Pointer[string] // what Sicken received
	frozen atomic.Bool            // whether the tool freeze was called
	more   atomic.Pointer[[]sdk.Tool]

	mu     sync.Mutex
	server *grpc.Server
	conn   *grpc.ClientConn
	end    sync.Once
	ended  chan struct{}
	err    error
}

// PID implements [supervisor.Program].
func (p *Program) PID() int { return p.pid }

// Version returns the version of the plugin.
func (p *Program) Version() string { return p.words["version"] }

// Connect implements [supervisor.Program].
func (p *Program) Connect(ctx context.Context) (tool.Plugin, error) {
	switch {
	case p.words["start"] == "exit":
		p.End(errors.New("exit status 3"))
		return nil, errors.New("no handshake")
	case p.words["start"] == "hang":
		select {
		case <-ctx.Done():
		case <-p.ended:
		}
		return nil, errors.New("no handshake")
	case p.words["gate"] != "":
		if !p.all.Gate(p.words["gate"]).pass(ctx.Done(), p.ended) {
			return nil, errors.New("no handshake")
		}
	}
	impl, err := sdk.New(p.plugin())
	if err != nil {
		return nil, err
	}
	listener := bufconn.Listen(64 << 10)
	server := grpc.NewServer()
	toolrpc.Register(server, impl)
	conn, err := grpc.NewClient("passthrough:",
		append(toolrpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
				error) {
				return listener.DialContext(ctx)
			}))...)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Ended() {
		return nil, errors.Join(errors.New("the program ended"), conn.Close())
	}
	p.server, p.conn = server, conn
	if p.words["start"] != "deaf" {
		go server.Serve(listener) //nolint:errcheck // it returns when the program ends
	}
	return toolrpc.NewClient(conn), nil
}

// End ends the program. The error describes how it ended.
func (p *Program) End(err error) {
	p.end.Do(func() {
		p.mu.Lock()
		p.err = err
		close(p.ended)
		server := p.server
		p.mu.Unlock()
		if server != nil {
			server.Stop()
		}
	})
}

// Ended reports whether the program has ended.
func (p *Program) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Wait implements [supervisor.Program].
func (p *Program) Wait() error {
	<-p.ended
	return p.err
}

// Stop implements [supervisor.Program].
func (p *Program) Stop() { p.End(nil) }

// Kill implements [supervisor.Program].
func (p *Program) Kill() {
	p.End(errors.New("signal: killed"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close()
	}
}

// Sicken makes the plugin report that it is not healthy. An empty text makes it healthy again.
func (p *Program) Sicken(text string) { p.sick.Store(&text) }
