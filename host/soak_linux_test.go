package host_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/testprogram"
)

// soakTime is the duration of the test phase with kills. TOOLHOST_SOAK overrides it.
const soakTime = 5 * time.Second

// calmTime is the duration of the phases without kills, before and after the kills.
const calmTime = time.Second

// TestSoak kills plugins at random during continuous calls. Read-only calls must never fail, and other calls must only
// fail as unavailable. The host must not leak resources, neither while it runs nor after Close. The command "make soak"
// runs the test for a longer time.
func TestSoak(t *testing.T) {
	during := soakTime
	if s := os.Getenv("TOOLHOST_SOAK"); s != "" {
		var err error
		if during, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	bin := soakBinaries(t)
	runtimeDir, err := os.MkdirTemp("", "th") // a short directory name, because the length of socket paths is limited
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(runtimeDir)
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)

	once := newSoak(t, bin) // creates the resources that exist until the process ends
	once.each(t)
	if err := once.host.Close(); err != nil {
		t.Fatal(err)
	}
	outside := footprintNow(t, runtimeDir)

	s := newSoak(t, bin)
	s.each(t)
	s.under(t, calmTime, false) // opens all shells of sessions and all connections of the database
	s.atOnce(t)
	inside := settled(t, runtimeDir, footprint{})
	kills := s.under(t, during, true)
	s.each(t) // starts every plugin again
	s.under(t, calmTime, false)
	s.atOnce(t)
	if after := settled(t, runtimeDir, inside); after.more(inside) {
		t.Errorf("in a host that goes on, %d kills leave something behind\nbefore: %s\nafter:  %s\nbefore: %s\nafter:  %s", kills, inside, after, inside.details, after.details)
	}
	if err := s.host.Close(); err != nil {
		t.Error(err)
	}
	if after := settled(t, runtimeDir, outside); after.more(outside) {
		t.Errorf("a host leaves something behind\nbefore: %s\nafter:  %s\nbefore: %s\nafter:  %s", outside, after, outside.details, after.details)
	}
	for pid := range s.pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("the plugin's process %d is left", pid)
		}
	}
	t.Logf("%d calls that read, %d others of which %d were unavailable, %d kills in %s", s.reads.Load(), s.others.Load(), s.unavailable.Load(), kills, during)
	if s.reads.Load() == 0 || s.others.Load() == 0 || kills == 0 {
		t.Error("there was no load")
	}
}

// soakBinaries returns a directory with copies of the plugins. The sandbox launcher is beside it, so the plugins run in
// their sandboxes.
func soakBinaries(t *testing.T) string {
	dir := t.TempDir()
	err := testprogram.Copy(dir, "toolhost-sandbox", "testplugin", "plugins/read", "plugins/read.json", "plugins/bash", "plugins/bash.json")
	if err == nil {
		err = os.Rename(filepath.Join(dir, "testplugin"), filepath.Join(dir, "plugins", "testplugin"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "plugins")
}

type soak struct {
	host                       *host.Host
	reads, others, unavailable atomic.Int64
	pids                       map[int]bool // process ids of all plugins seen so far
}

func newSoak(t *testing.T, bundled string) *soak {
	work := t.TempDir()
	config := filepath.Join(t.TempDir(), "toolhost.hcl")
	for path, text := range map[string]string{config: "bundled = false\nplugin \"testplugin\" {}\nplugin \"read\" {}\nplugin \"bash\" {}\n" + unconfined, filepath.Join(work, "letters"): "a\nb\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.New(t.Context(), host.Options{Config: config, BundledDir: bundled, Workspace: work, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &soak{host: h, pids: make(map[int]bool)}
}

// soakCalls contains the calls of the test in order, starting with the read-only calls.
var soakCalls = []struct {
	request  host.Request
	readOnly bool
	want     string
}{
	{host.Request{Command: "read letters"}, true, "b"},
	{host.Request{Name: "echo", Arguments: []byte(`{"text":"hello"}`)}, true, "hello"},
	{host.Request{Name: "nap", Arguments: []byte(`{"ms":5}`)}, true, "rested"},
	{host.Request{Name: "count", Arguments: []byte(`{}`)}, false, ""},
	{host.Request{Command: "sleep 0.02 | cat; echo done"}, false, "done"},
}

// each makes every call once without kills. It retries calls, because plugins need time to restart after a kill.
func (s *soak) each(t *testing.T) {
	t.Helper()
	for _, c := range soakCalls {
		var res *host.Result
		for range 100 {
			if res = s.host.Run(t.Context(), c.request, nil); res.Success() {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !res.Success() || !strings.Contains(res.Output, c.want) {
			t.Fatalf("%s%s: %q %v", c.request.Name, c.request.Command, res.Output, res.Error)
		}
	}
}

// atOnce makes many concurrent calls, so that the host opens the maximum number of streams to each plugin.
func (s *soak) atOnce(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 8 {
		session := fmt.Sprintf("at-once-%d", i)
		run := func(req host.Request) {
			req.Session = session
			if res := s.host.Run(t.Context(), req, nil); !res.Success() {
				t.Error(res.Error)
			}
		}
		wg.Go(func() {
			run(host.Request{Name: "count", Arguments: []byte(`{"ms":1000}`)})
			run(host.Request{Command: "sleep 1"})
		})
	}
	wg.Wait()
}

// under makes calls for a limited time. If kill is true, it kills plugins during this time. It returns the number of
// killed plugins.
func (s *soak) under(t *testing.T, during time.Duration, kill bool) (kills int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range 12 {
		session := fmt.Sprintf("session-%d", i%4)
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				c := soakCalls[n%len(soakCalls)]
				c.request.Session = session
				res := s.host.Run(context.Background(), c.request, nil)
				switch {
				case c.readOnly:
					s.reads.Add(1)
				default:
					s.others.Add(1)
				}
				switch {
				case res.Success() && strings.Contains(res.Output, c.want):
				case kill && !c.readOnly && res.Error != nil && res.Error.Kind == tool.Unavailable:
					s.unavailable.Add(1)
				default:
					t.Errorf("%s%s: %q %+v", c.request.Name, c.request.Command, res.Output, res.Error)
				}
			}
		})
	}
	for end := time.Now().Add(during); time.Now().Before(end) && !t.Failed(); time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond) {
		for _, p := range s.host.Status().Plugins {
			if p.PID == 0 {
				continue
			}
			s.pids[p.PID] = true
			if kill && rand.IntN(2) == 0 && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
				kills++
			}
		}
	}
	cancel()
	wg.Wait()
	return kills
}

// footprint contains the number of resources and child processes of the test process.
type footprint struct {
	goroutines, descriptors, processes int
	database                           int // descriptors of the database pool
	sockets                            []string
	details                            string
}

// summary returns the stacks of all goroutines and the list of open descriptors.
func summary(descriptors []string) string {
	slices.Sort(descriptors)
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String() + strings.Join(descriptors, "\n")
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d of the database, %d processes, sockets %q", f.goroutines, f.descriptors, f.database, f.processes, f.sockets)
}

// poolDescriptors is the maximum number of descriptors that the database pool opens: three files per connection.
const poolDescriptors = 12

// more reports whether f contains more resources than another footprint. Descriptors of the database count only above
// poolDescriptors.
func (f footprint) more(than footprint) bool {
	return f.goroutines > than.goroutines || f.descriptors > than.descriptors || f.processes > than.processes || f.database > max(than.database, poolDescriptors*min(than.database, 1)) || len(f.sockets) > len(than.sockets)
}

func footprintNow(t *testing.T, runtimeDir string) (f footprint) {
	t.Helper()
	f.goroutines = runtime.NumGoroutine()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if strings.Contains(to, "state.db") {
			f.database++
		} else if err == nil { // skip the descriptor of the directory listing, which is already closed
			f.descriptors++
			open = append(open, to)
		}
	}
	f.processes = len(descendants())
	f.details = summary(open)
	err = filepath.WalkDir(runtimeDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			f.sockets = append(f.sockets, path)
		}
		return nil // ignore files that are removed during the walk
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// settled waits until the footprint is at most the footprint before. If before is zero, it waits until the footprint
// does not change any more.
func settled(t *testing.T, runtimeDir string, before footprint) footprint {
	t.Helper()
	f, same := footprintNow(t, runtimeDir), 0
	for range 200 {
		if before.goroutines > 0 && !f.more(before) || before.goroutines == 0 && same == 10 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		next := footprintNow(t, runtimeDir)
		if same++; next.String() != f.String() {
			same = 0
		}
		f = next
	}
	return f
}

// descendants returns the process ids of all child processes and their descendants.
func descendants() []int {
	children := make(map[int][]int)
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		// The name can contain any character, so search for its last parenthesis. The next fields are the state and the
		// parent's process id.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		pid, err2 := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err == nil && err2 == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := slices.Clone(children[os.Getpid()])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
