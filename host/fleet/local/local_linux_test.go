package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/local"
	"toolhost.dev/sdk/tool"
)

// clientEnv turns this test program into a program that calls the node with a state directory. confinedEnv makes it
// give up privileges first, as programs in the sandbox have.
const (
	clientEnv   = "TOOLHOST_TEST_CLIENT"
	confinedEnv = "TOOLHOST_TEST_CONFINED"
)

func init() { runtime.LockOSThread() } // TestMain must run on the main thread

func TestMain(m *testing.M) {
	state := os.Getenv(clientEnv)
	if state == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(confinedEnv) != "" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
	}
	h, err := newHost(state)
	if err != nil {
		panic(err)
	}
	n, err := local.Dial(h)
	if err != nil {
		panic(err)
	}
	h.Join(n)
	fmt.Println(h.Run(context.Background(), host.Request{Command: "ls", Workspace: "repo@laptop"}, nil).Error)
	os.Exit(0)
}

func newHost(state string) (*host.Host, error) {
	config := filepath.Join(state, "none.hcl")
	for _, dir := range []string{state, state + "-work"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(config, []byte("bundled = false\n"), 0o600); err != nil {
		return nil, err
	}
	return host.New(context.Background(), host.Options{Config: config, StateDir: state, Workspace: state + "-work"})
}

// refusing is a fleet that refuses each request with the workspace that it names.
type refusing struct{}

func (refusing) Stats() host.FleetStats { return host.FleetStats{} }

func (refusing) Begin(req host.Request, _ host.Client) host.Queued { return refused{req} }

type refused struct{ req host.Request }

func (refused) Native() bool { return false }

func (r refused) Run(context.Context) *tool.Result {
	return tool.Failed(tool.Errorf(tool.NotFound, "refused in %s", r.req.Workspace))
}

// TestOnlyUnconfinedPrograms checks that the socket serves programs of the user, but not those in a sandbox.
func TestOnlyUnconfinedPrograms(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	h, err := newHost(state)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.Join(refusing{})
	dir := filepath.Join(state, "fleet")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stop, err := local.Serve(h, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for confined, want := range map[string]string{"": "refused in repo@laptop", "1": "does not answer"} {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), clientEnv+"="+state, confinedEnv+"="+confined)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("confined %q: %v %s", confined, err, out)
		}
	}
}

// asking is a fleet whose call ends while its client is asked. The call of the command "wait" ends when it is canceled.
type asking struct {
	refusing
	person person
}

func (a asking) Begin(req host.Request, client host.Client) host.Queued {
	return asks{req, client, a.person}
}

type asks struct {
	req    host.Request
	client host.Client
	person person
}

func (asks) Native() bool { return false }

func (a asks) Run(ctx context.Context) *tool.Result {
	during, end := context.WithCancel(ctx)
	defer end()
	go func() { _, _ = a.client.Ask(during, tool.Ask{Question: &tool.Question{Text: "?"}}) }()
	<-a.person.asked
	if a.req.Command == "wait" {
		<-ctx.Done()
		return tool.Failed(tool.Errorf(tool.Canceled, "ended: %w", context.Cause(ctx)))
	}
	return &tool.Result{Output: "done"}
}

// person is a client that gets a question, and does not answer.
type person struct {
	host.Client
	asked, withdrawn chan struct{}
}

func newPerson() person { return person{asked: make(chan struct{}), withdrawn: make(chan struct{})} }

func (p person) Ask(ctx context.Context, _ tool.Ask) (tool.Answer, error) {
	close(p.asked)
	<-ctx.Done()
	close(p.withdrawn)
	return tool.Answer{}, ctx.Err()
}

// TestEnd checks that the client of a call is not asked any more when the call has ended, and that a node that stops
// returns the results of the calls that it cancels.
func TestEnd(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	h, err := newHost(state)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := newPerson()
	h.Join(asking{person: p})
	if err := os.Mkdir(filepath.Join(state, "fleet"), 0o700); err != nil {
		t.Fatal(err)
	}
	stop, err := local.Serve(h, filepath.Join(state, "fleet"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	n, err := local.Dial(h)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if res := n.Begin(host.Request{Command: "ask", Workspace: "@laptop"}, p).Run(t.Context()); res.Output != "done" {
		t.Error(res.Error)
	}
	<-p.withdrawn
	p = newPerson()
	h.Join(asking{person: p})
	done := make(chan *tool.Result, 1)
	go func() {
		done <- n.Begin(host.Request{Command: "wait", Workspace: "@laptop"}, p).Run(t.Context())
	}()
	<-p.asked
	stop()
	if res := <-done; res.Error == nil || !strings.Contains(res.Error.Message, host.ErrStopped.Error()) {
		t.Errorf("a call of a node that stops: %v", res.Error)
	}
}

// TestNoNode checks the error without a node.
func TestNoNode(t *testing.T) {
	h, err := newHost(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if n, err := local.Dial(h); err == nil || !strings.Contains(err.Error(), "toolhost serve --fleet") {
		t.Errorf("%v %v", n, err)
	}
}
