package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// swappable is a host configuration with one plugin. Tests can replace the binary of the plugin.
type swappable struct {
	t    *testing.T
	dir  string
	path string
	opts host.Options
}

// swap prepares a host with one plugin. Tests can replace the binary of the plugin. The text more is added to the
// configuration.
func swap(t *testing.T, more string) *swappable {
	t.Helper()
	dir := t.TempDir()
	s := &swappable{t: t, dir: dir, path: filepath.Join(dir, "bin", "p")}
	if err := os.Mkdir(filepath.Dir(s.path), 0o755); err != nil {
		t.Fatal(err)
	}
	s.put("version=1.0.0")
	s.configure(fmt.Sprintf("plugin %q {\n  path = %q\n}\n%s", "p", s.path, more+unconfined))
	s.opts = host.Options{Config: filepath.Join(dir, "toolhost.hcl")}
	return s
}

func (s *swappable) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "toolhost.hcl"), []byte(text+"\nbundled = false\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// put replaces the binary with another variant. It renames a new file, so that the change is atomic.
func (s *swappable) put(variant string) {
	s.t.Helper()
	s.write(variant)
	if err := os.Rename(s.path+".new", s.path); err != nil {
		s.t.Fatal(err)
	}
}

// write writes a variant of the binary beside the binary.
func (s *swappable) write(variant string) {
	s.t.Helper()
	dir, err := plugins()
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "testplugin"))
	if err != nil {
		s.t.Fatal(err)
	}
	b = fmt.Appendf(b, "\n!variant %s\n", variant)
	if err := os.WriteFile(s.path+".new", b, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// version returns the version that the running plugin reports.
func version(t *testing.T, h *host.Host) string {
	t.Helper()
	res := h.Run(t.Context(), host.Request{Command: "where"}, nil)
	_, v, _ := strings.Cut(res.Output, "version=")
	v, _, _ = strings.Cut(v, " ")
	if !res.Success() {
		t.Errorf("where: %v", res.Error)
	}
	return v
}

func reload(t *testing.T, h *host.Host, opts host.ReloadOptions) *host.Reload {
	t.Helper()
	r, err := h.Reload(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// patient is a client that does not answer a question until the test signals it.
type patient struct{ asked, answer chan struct{} }

func (*patient) Progress(string, map[string]any) {}
func (*patient) Output(tool.Stream, []byte)      {}
func (p *patient) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	close(p.asked)
	<-p.answer
	return tool.Answer{Outcome: tool.Accepted}, nil
}

func TestSwap(t *testing.T) {
	s := swap(t, "")
	s.opts.OnAsk = "prompt"
	h := open(t, s.opts)
	if v := version(t, h); v != "1.0.0" {
		t.Fatalf("version %q", v)
	}
	if r := reload(t, h, host.ReloadOptions{}); len(r.Plugins) != 0 || r.Config.Changed || r.Refused() {
		t.Errorf("nothing changed, and: %+v", r)
	}
	var updates []host.Update
	h.Subscribe(func(u host.Update) { updates = append(updates, u) })
	// A running call must continue with the old version until its end.
	client := &patient{asked: make(chan struct{}), answer: make(chan struct{})}
	slow := make(chan *host.Result)
	go func() { slow <- h.Run(context.Background(), host.Request{Command: "ask"}, client) }()
	<-client.asked
	s.put("version=2.0.0 add=extra")
	r := reload(t, h, host.ReloadOptions{})
	if len(r.Plugins) != 1 || r.Plugins[0].Outcome != host.Swapped || r.Plugins[0].From != "1.0.0" || r.Plugins[0].To != "2.0.0" || r.Plugins[0].Draining != 1 {
		t.Errorf("%+v", r)
	}
	if v := version(t, h); v != "2.0.0" {
		t.Errorf("version %q serves", v)
	}
	if res := h.Run(t.Context(), host.Request{Name: "extra", Session: "other"}, nil); !res.Success() {
		t.Errorf("the new tool: %v", res.Error)
	}
	close(client.answer)
	if res := <-slow; !res.Success() || res.Run.PluginVersion != "1.0.0" {
		t.Errorf("the call that ran: %+v", res)
	}
	if len(updates) != 1 || len(updates[0].Tools) != 1 || updates[0].Tools[0].Tool != "extra" {
		t.Errorf("%+v", updates)
	}
}

// TestRefusedVersions checks that a reload rejects a bad version with a reason. The old version must continue to serve.
func TestRefusedVersions(t *testing.T) {
	s := swap(t, "")
	s.configure(fmt.Sprintf("plugin \"p\" {\n  path = %q\n  start_timeout = \"5s\"\n}\n", s.path))
	h := open(t, s.opts)
	pid := func() int { return h.Status().Plugins[0].PID }
	if v := version(t, h); v != "1.0.0" {
		t.Fatalf("version %q", v)
	}
	first := pid()
	for variant, want := range map[string]string{
		"mode=exit":    "exit status 3",
		"mode=garbage": "Welcome to my plugin!",
		"require=echo": "echo: the new parameter reason is required",
	} {
		s.put("version=2.0.0 " + variant)
		r := reload(t, h, host.ReloadOptions{})
		if len(r.Plugins) != 1 || r.Plugins[0].Outcome != host.Refused || !strings.Contains(r.Plugins[0].Refused, want) {
			t.Errorf("%s: %+v", variant, r)
		}
		if v := version(t, h); v != "1.0.0" || pid() != first {
			t.Errorf("%s: version %q serves", variant, v)
		}
		if why := h.Status().Plugins[0].Refused; !strings.Contains(why, want) {
			t.Errorf("%s: the status says %q", variant, why)
		}
	}
	// If the running process dies, the host must start the old version, although the rejected binary is on disk.
	s.put("version=2.0.0 require=echo")
	reload(t, h, host.ReloadOptions{})
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if res := h.Run(t.Context(), host.Request{Name: "nap", Arguments: []byte(`{"ms":1}`)}, nil); res.Error == nil || res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "breaks callers of its tools") {
			t.Errorf("%+v", res.Error)
		}
	}
	s.put("version=1.0.0")
	// Try again, because a call can wait for a start of the rejected version that is still in progress.
	for end := time.Now().Add(20 * time.Second); !h.Run(t.Context(), host.Request{Command: "where"}, nil).Success() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if v := version(t, h); v != "1.0.0" {
		t.Errorf("version %q", v)
	}
	s.put("version=2.0.0 unhealthy=too-hot")
	if r := reload(t, h, host.ReloadOptions{AcceptChanges: true}); r.Plugins[0].Outcome != host.Refused {
		t.Error("a plugin that is not healthy was accepted")
	}
	s.put("version=2.0.0 drop=nap")
	if r := reload(t, h, host.ReloadOptions{AcceptChanges: true}); r.Plugins[0].Outcome != host.Swapped || r.Plugins[0].Changes[0].Tool != "nap" {
		t.Errorf("%+v", r)
	}
	if v, why := version(t, h), h.Status().Plugins[0].Refused; v != "2.0.0" || why != "" {
		t.Errorf("%q %q", v, why)
	}
	if res := h.Run(t.Context(), host.Request{Name: "nap"}, nil); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("%+v", res)
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	if r := reload(t, h, host.ReloadOptions{}); r.Plugins[0].Outcome != host.Refused || !strings.Contains(r.Plugins[0].Refused, "does not exist") {
		t.Errorf("%+v", r)
	}
	if v := version(t, h); v != "2.0.0" {
		t.Errorf("%q", v)
	}
}

// TestTheNewestWins checks that a reload publishes the newest version if the binary changes during the reload.
func TestTheNewestWins(t *testing.T) {
	s := swap(t, "")
	s.opts.Live = true
	h := open(t, s.opts)
	version(t, h)
	s.put("version=2.0.0 mode=hang")
	done := make(chan *host.Reload)
	go func() {
		r, err := h.Reload(context.Background(), host.ReloadOptions{Plugins: []string{"p"}})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	time.Sleep(300 * time.Millisecond)
	s.put("version=3.0.0")
	if r := <-done; len(r.Plugins) != 1 || r.Plugins[0].Outcome != host.Swapped || r.Plugins[0].To != "3.0.0" {
		t.Errorf("%+v", r)
	}
	if v := version(t, h); v != "3.0.0" {
		t.Errorf("version %q", v)
	}
}

// TestWatchingFollowsTheConfiguration checks that a reload can enable the watcher.
func TestWatchingFollowsTheConfiguration(t *testing.T) {
	s := swap(t, "reload {\n  watch = false\n}\n")
	s.opts.Live = true
	h := open(t, s.opts)
	version(t, h)
	s.put("version=2.0.0")
	time.Sleep(500 * time.Millisecond)
	if v := version(t, h); v != "1.0.0" {
		t.Errorf("version %q serves, and nothing is watched", v)
	}
	s.configure(fmt.Sprintf("plugin %q {\n  path = %q\n}\n", "p", s.path))
	reload(t, h, host.ReloadOptions{})
	if v := version(t, h); v != "2.0.0" {
		t.Errorf("version %q", v)
	}
	s.put("version=3.0.0")
	for deadline := time.Now().Add(30 * time.Second); version(t, h) != "3.0.0"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("version %q serves", version(t, h))
		}
	}
}

// TestMendedPlugin checks that a reload loads a plugin that failed at the start of the host.
func TestMendedPlugin(t *testing.T) {
	s := swap(t, "")
	s.put("version=1.0.0 mode=exit")
	h := open(t, s.opts)
	if len(h.Problems()) == 0 {
		t.Fatal("it works")
	}
	if r := reload(t, h, host.ReloadOptions{}); !r.Refused() {
		t.Errorf("%+v", r)
	}
	s.put("version=1.0.1")
	if r := reload(t, h, host.ReloadOptions{}); r.Refused() || len(r.Problems) != 0 {
		t.Errorf("%+v", r)
	}
	if v := version(t, h); v != "1.0.1" {
		t.Errorf("version %q", v)
	}
}

func TestReloadNeedsAKnownPlugin(t *testing.T) {
	h := open(t, swap(t, "").opts)
	if _, err := h.Reload(t.Context(), host.ReloadOptions{Plugins: []string{"q"}}); err == nil || !strings.Contains(err.Error(), `unknown plugin "q"`) {
		t.Error(err)
	}
}

// load starts several callers, each with its own session. They make calls without a pause until the test calls stop.
// One caller in eight changes state, so the host must not repeat its calls. If nap is not zero, the other calls
// alternate with ones that last so long, so that each caller nearly always has a call that runs, but the processors
// have time for the test.
func load(t *testing.T, h *host.Host, callers int, nap time.Duration, judge func(t *testing.T, want string, res *host.Result) bool) (stop func() (calls int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for k, n := 0, 0; ctx.Err() == nil; k++ {
				text := fmt.Sprintf("caller %d call %d", i, k)
				req := host.Request{Name: "echo", Arguments: fmt.Appendf(nil, `{"text":%q}`, text), Session: fmt.Sprint("s", i)}
				switch {
				case nap > 0 && k%2 == 0:
					req.Name, req.Arguments, text = "nap", fmt.Appendf(nil, `{"ms":%d}`, nap.Milliseconds()), "rested"
				case i%8 == 0:
					req.Name, req.Arguments, text = "count", nil, fmt.Sprint(n+1)
				}
				res := h.Run(context.Background(), req, nil)
				if !judge(t, text, res) {
					return
				}
				if req.Name == "count" && res.Success() {
					n++
				}
				calls.Add(1)
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		return calls.Load()
	}
}

// leaks fails the test if the test leaks a process, a descriptor or a goroutine. The check runs after all cleanups. A
// test must call leaks before any other function.
func leaks(t *testing.T) {
	t.Helper()
	if h, err := host.New(t.Context(), testpluginIn(t)); err != nil || h.Close() != nil { // creates the resources that exist until the process ends
		t.Fatal(err)
	}
	count := func() [3]int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return [3]int{children(t), len(fds), runtime.NumGoroutine()}
	}
	before := count()
	t.Cleanup(func() {
		var after [3]int
		for range 100 { // some resources of the test need a moment to end
			if after = count(); after[0] <= before[0] && after[1] <= before[1] && after[2] <= before[2] {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("processes, descriptors, goroutines before: %d; after: %d\n%s", before, after, buf[:runtime.Stack(buf, true)])
	})
}

func testpluginIn(t *testing.T) host.Options {
	t.Helper()
	dir, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	opts := testplugin(t)
	opts.BundledDir, opts.Workspace, opts.StateDir, opts.Live = dir, t.TempDir(), t.TempDir(), true
	return opts
}

// TestSwapsUnderLoad checks that no call fails while the binary is replaced repeatedly.
func TestSwapsUnderLoad(t *testing.T) {
	leaks(t)
	s := swap(t, "")
	s.opts.Live = true
	h := open(t, s.opts)
	version(t, h)
	stop := load(t, h, 64, 300*time.Millisecond, func(t *testing.T, want string, res *host.Result) bool {
		if !res.Success() || res.Output != want || res.Run.Attempts > 1 {
			t.Errorf("%q: %q %v, attempts %d", want, res.Output, res.Error, res.Run.Attempts)
			return false
		}
		return true
	})
	for n := range 10 {
		s.put(fmt.Sprintf("version=2.0.%d", n))
		if n%2 == 1 {
			continue // without a call of Reload, because the watcher reloads the plugin
		}
		r := reload(t, h, host.ReloadOptions{})
		if r.Refused() {
			t.Errorf("swap %d: %+v", n, r)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); version(t, h) != "2.0.9"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("version %q serves", version(t, h))
		}
	}
	t.Logf("%d calls", stop())
}

// TestKillsUnderLoad kills plugins at random. Read-only calls must never fail, and other calls must only fail as
// unavailable. Every call must return.
func TestKillsUnderLoad(t *testing.T) {
	leaks(t)
	s := swap(t, "")
	h := open(t, s.opts)
	version(t, h)
	var failed atomic.Int64
	stop := load(t, h, 32, 0, func(t *testing.T, want string, res *host.Result) bool {
		switch {
		case res.Success() && (res.Output == want || res.Run.Tool == "count"): // a repeated call of "count" can return any number
			return true
		case res.Run.Tool == "count" && res.Error != nil && res.Error.Kind == tool.Unavailable && strings.Contains(res.Error.Message, "signal: killed"):
			failed.Add(1)
			return true
		}
		t.Errorf("%q: %q %v, attempts %d", want, res.Output, res.Error, res.Run.Attempts)
		return false
	})
	kills := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Duration(50+rand.IntN(150)) * time.Millisecond) {
		if pid := h.Status().Plugins[0].PID; pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			kills++
		}
	}
	t.Logf("%d calls, %d kills, %d calls that change something failed", stop(), kills, failed.Load())
	if kills == 0 {
		t.Error("nothing was killed")
	}
}

// children returns the number of living child processes.
func children(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range tasks {
		b, _ := os.ReadFile(f) // the error is ignored, because the thread can end before the read
		n += len(strings.Fields(string(b)))
	}
	return n
}
