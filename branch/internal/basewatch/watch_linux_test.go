package basewatch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"
)

// settled returns a watch of a base after its first scan.
func settled(t *testing.T, base string) *Watch {
	t.Helper()
	w := New(base)
	t.Cleanup(w.Close)
	for scanning := true; scanning; runtime.Gosched() {
		w.mu.Lock()
		scanning = w.scanning
		w.mu.Unlock()
	}
	return w
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestManyChanges checks that everything counts as changed if more paths change than a watch remembers, and that later
// changes are recorded by path again.
func TestManyChanges(t *testing.T) {
	base := t.TempDir()
	w := settled(t, base)
	before, _ := w.Read()
	write(t, filepath.Join(base, "one"))
	now, _ := w.Read()
	if paths, all := w.Since(before); all || !slices.Equal(paths, []string{filepath.Join(base, "one")}) {
		t.Errorf("one change: %q, everything %t", paths, all)
	}
	for i := range maxChanged + 1 {
		write(t, filepath.Join(base, fmt.Sprint(i)))
		if i%1000 == 0 {
			w.Read() // so that the queue of the kernel does not overflow
		}
	}
	later, _ := w.Read()
	if paths, all := w.Since(now); !all {
		t.Errorf("many changes: %d paths, but not everything", len(paths))
	}
	write(t, filepath.Join(base, "two"))
	w.Read()
	if paths, all := w.Since(later); all || !slices.Contains(paths, filepath.Join(base, "two")) {
		t.Errorf("a later change: %q, everything %t", paths, all)
	}
}

// TestLostEvents checks that everything counts as changed if the kernel has dropped events, and that all directories
// are watched afterwards, also those of which the event was lost.
func TestLostEvents(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	limit := 0
	if err == nil {
		_, err = fmt.Sscan(string(text), &limit)
	}
	if err != nil || limit > 100_000 {
		need.Missing(t, fmt.Sprintf("the queue of events is too long or unknown: %d, %v", limit, err))
	}
	base := t.TempDir()
	w := settled(t, base)
	before, _ := w.Read()
	for i := 0; i <= limit/2; i++ { // each makes at least two events
		write(t, filepath.Join(base, fmt.Sprint(i%2)))
	}
	if err := os.Mkdir(filepath.Join(base, "lost"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.Read()
	if paths, all := w.Since(before); !all {
		t.Errorf("after a loss of events: %q, but not everything", paths)
	}
	for scanning := true; scanning; runtime.Gosched() {
		w.mu.Lock()
		scanning = w.scanning
		w.mu.Unlock()
	}
	now, _ := w.Read()
	write(t, filepath.Join(base, "lost/x"))
	w.Read()
	if paths, all := w.Since(now); all || !slices.Contains(paths, filepath.Join(base, "lost/x")) {
		t.Errorf("a change in a directory whose event was lost: %q, everything %t", paths, all)
	}
}

// TestTooFewWatches checks that everything counts as changed at each call if the system permits too few watches. The
// test runs itself again in a user namespace with a low limit.
func TestTooFewWatches(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("TOOLHOST_TEST_FEW_WATCHES") == "" {
		c := exec.Command("unshare", "-r", "sh", "-ec", `echo 3 > /proc/sys/user/max_inotify_watches; exec "$0" "$@"`, "/proc/self/exe", "-test.run", "^TestTooFewWatches$", "-test.v")
		c.Args[5], _ = os.Executable()
		c.Env = append(os.Environ(), "TOOLHOST_TEST_FEW_WATCHES=1")
		out, err := c.CombinedOutput()
		switch {
		case strings.Contains(string(out), "unshare:") || strings.Contains(string(out), "max_inotify_watches"):
			need.Missing(t, "a limit of watches cannot be set: "+string(out))
		case err != nil || !strings.Contains(string(out), "--- PASS"):
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	w := settled(t, base)
	if !w.full {
		t.Fatal("the watches suffice, so the test shows nothing")
	}
	last, _ := w.Read()
	for range 3 {
		now, names := w.Read()
		if _, all := w.Since(last); !all || now == last || names != now {
			t.Errorf("a call at %d after %d: everything %t, names at %d", now, last, all, names)
		}
		last = now
	}
}
