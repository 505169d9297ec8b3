package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/testprogram"
)

// plugins returns a directory with copies of the plugins for the tests. Two of them are bundled plugins with a
// manifest.
var plugins = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "toolhost-plugins")
	if err == nil {
		err = testprogram.Copy(dir, "testplugin", "plugins/read", "plugins/read.json", "plugins/edit", "plugins/edit.json")
	}
	for _, name := range []string{"read", "read.json", "edit", "edit.json"} {
		if err == nil {
			err = os.Rename(filepath.Join(dir, "plugins", name), filepath.Join(dir, name))
		}
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, "plugins"))
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := plugins(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// open starts a host with the test plugin or with the bundled plugins.
func open(t testing.TB, opts host.Options) *host.Host {
	t.Helper()
	dir, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	opts.BundledDir = dir
	if opts.Workspace == "" {
		opts.Workspace = t.TempDir()
	}
	if opts.StateDir == "" {
		opts.StateDir = t.TempDir()
	}
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// unconfined is the part of a configuration for hosts without a launcher of confined plugins.
const unconfined = "\nsandbox {\n  enforce = \"off\"\n}\n"

func testplugin(t *testing.T) host.Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolhost.hcl")
	if err := os.WriteFile(path, []byte("bundled = false\nplugin \"testplugin\" {}"+unconfined), 0o600); err != nil {
		t.Fatal(err)
	}
	return host.Options{Config: path}
}

func TestManyCallersAtOnce(t *testing.T) {
	h := open(t, testplugin(t))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for k := range 20 {
				text := fmt.Sprintf("caller %d call %d", i, k)
				res := h.Run(t.Context(), host.Request{Name: "echo", Arguments: fmt.Appendf(nil, `{"text":%q}`, text), Session: fmt.Sprint("s", i%7)}, nil)
				if !res.Success() || res.Output != text {
					t.Errorf("%q: %v", text, res)
				}
			}
		})
	}
	wg.Wait()
	if st := h.Status(); len(st.Plugins) != 1 || st.Plugins[0].Starts != 1 || st.Plugins[0].Calls != 0 {
		t.Errorf("one process should have served them all, and be idle now: %+v", st.Plugins)
	}
}

func TestUnsafeCallsKeepTheirOrder(t *testing.T) {
	h := open(t, testplugin(t))
	var pending []*host.Pending
	for range 30 {
		pending = append(pending, h.Begin(host.Request{Command: "count", Session: "s"}, nil))
	}
	results := make([]*host.Result, len(pending))
	var wg sync.WaitGroup
	for i := len(pending) - 1; i >= 0; i-- { // call Run in the reverse order of the Begin calls
		wg.Go(func() { results[i] = pending[i].Run(t.Context()) })
	}
	wg.Wait()
	for i, res := range results {
		if res.Output != fmt.Sprint(i+1) {
			t.Errorf("call %d gave %q, %v", i+1, res.Output, res.Error)
		}
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	h := open(t, testplugin(t))
	ctx, cancel := context.WithCancel(t.Context())
	client := &recorder{progress: make(chan string, 10)}
	done := make(chan *host.Result, 1)
	go func() { done <- h.Run(ctx, host.Request{Command: "nap --ms 600000"}, client) }()
	if title := <-client.progress; title != "napping" {
		t.Errorf("progress %q", title)
	}
	cancel()
	select {
	case res := <-done:
		if res.Success() || res.Error.Kind != tool.Canceled || res.Error.Source != tool.SourceHost {
			t.Errorf("%+v", res.Error)
		}
	case <-time.After(time.Minute):
		t.Fatal("the call did not end")
	}
	if calls := h.Status().Plugins[0].Calls; calls != 0 {
		t.Errorf("%d calls still run", calls)
	}
}

func TestWaitingInLineIsCanceledToo(t *testing.T) {
	h := open(t, testplugin(t))
	first := h.Begin(host.Request{Command: "count", Session: "s"}, nil) // first in the queue, but not yet running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := h.Run(ctx, host.Request{Command: "count", Session: "s"}, nil)
	if res.Success() || res.Error.Kind != tool.Canceled || res.Run.Attempts != 0 {
		t.Errorf("%+v", res)
	}
	if res := first.Run(t.Context()); res.Output != "1" {
		t.Errorf("%+v", res)
	}
}

// recorder is a client that records all events.
type recorder struct {
	progress chan string
	mu       sync.Mutex
	output   strings.Builder
}

func (r *recorder) Progress(title string, _ map[string]any) { r.progress <- title }

func (r *recorder) Output(_ tool.Stream, chunk []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output.Write(chunk)
}

func (r *recorder) Ask(_ context.Context, ask tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.Accepted, Values: ask.Permission.Patterns}, nil
}

func TestClientHearsAndAnswers(t *testing.T) {
	opts := testplugin(t)
	opts.OnAsk = "prompt"
	h := open(t, opts)
	client := &recorder{progress: make(chan string, 10)}
	if res := h.Run(t.Context(), host.Request{Command: "print"}, client); !res.Success() || client.output.String() != "streamed\n" {
		t.Errorf("%v, heard %q", res.Error, client.output.String())
	}
	for _, command := range []string{"ask", "danger"} {
		if res := h.Run(t.Context(), host.Request{Command: command}, client); !res.Success() {
			t.Errorf("%s: %v", command, res.Error)
		}
	}
}

func TestFileStatesOutliveTheHost(t *testing.T) {
	workspace, state := t.TempDir(), t.TempDir()
	file := filepath.Join(workspace, "f.txt")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(command string) *host.Result {
		t.Helper()
		dir, err := plugins()
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(t.Context(), host.Options{BundledDir: dir, Workspace: workspace, StateDir: state})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}()
		return h.Run(t.Context(), host.Request{Command: command}, nil)
	}
	if res := run("edit f.txt --old_string one --new_string two"); res.Success() || res.Error.Code != 6 {
		t.Fatalf("an edit before a read: %+v", res)
	}
	if res := run("read f.txt"); res.Output != "one\n" {
		t.Fatalf("%+v", res)
	}
	if res := run("edit f.txt --old_string one --new_string two"); !res.Success() {
		t.Fatal(res.Error)
	}
	if res := run("edit f.txt --old_string two --new_string three"); !res.Success() { // the session knows the content after its own edit, so no new read is needed
		t.Fatal(res.Error)
	}
	if err := os.WriteFile(file, []byte("four\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := run("write f.txt --content five"); res.Success() || res.Error.Code != 7 {
		t.Fatalf("a write over somebody's change: %+v", res)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "four\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestNewWithoutPlugins checks that a host without a configuration and without bundled plugins is an error, because
// none of its calls could succeed. A configuration can want no plugins.
func TestNewWithoutPlugins(t *testing.T) {
	dir := t.TempDir()
	h, err := host.New(t.Context(), host.Options{BundledDir: dir, Workspace: t.TempDir(), StateDir: t.TempDir()})
	if err == nil {
		h.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "the directory "+dir+" has none: name the directory of a toolhost with Options.BundledDir") {
		t.Errorf("without plugins: %v", err)
	}
	config := filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(config, []byte("bundled = false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err = host.New(t.Context(), host.Options{Config: config, BundledDir: dir, Workspace: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
