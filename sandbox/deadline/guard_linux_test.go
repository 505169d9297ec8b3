package deadline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sandbox/deadline"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == deadline.Arg { // run as the watcher process of a test
		os.Exit(deadline.Watch())
	}
	os.Exit(m.Run())
}

func guard(t *testing.T, lost func()) *deadline.Guard {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	keep, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	g, err := deadline.Start(exe, keep, lost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// ended waits for the end of a process, and fails the test if the process was not killed.
func ended(t *testing.T, c *exec.Cmd) {
	t.Helper()
	err := c.Wait()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended otherwise: %v", err)
	}
}

func alive(c *exec.Cmd) bool { return c.Process.Signal(syscall.Signal(0)) == nil }

func TestProcessesEndWithTheLease(t *testing.T) {
	g := guard(t, func() { t.Error("the watcher ended by itself") })
	begin := deadline.Now()
	g.Extend(begin + 3*time.Second)
	c := sleeper(t)
	if err := g.Process(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	g.Extend(begin + 5*time.Second) // a renewal
	ended(t, c)
	if took := deadline.Now() - begin; took < 4500*time.Millisecond {
		t.Errorf("the process was killed after %s, although the lease was renewed", took)
	}
	late := sleeper(t)
	if err := g.Process(late.Process.Pid); err == nil {
		t.Error("a process began without a lease")
	}
	ended(t, late)
	g.Extend(deadline.Now() + time.Hour) // a new lease
	next := sleeper(t)
	if err := g.Process(next.Process.Pid); err != nil || !alive(next) {
		t.Errorf("a process cannot begin in a new lease: %v", err)
	}
	if err := g.Expire(); err != nil {
		t.Error(err)
	}
	ended(t, next)
}

// TestWatcherDies checks that the host is notified if the watcher ends, because then nothing guards the host's
// processes.
func TestWatcherDies(t *testing.T) {
	lost := make(chan struct{})
	g := guard(t, func() { close(lost) })
	g.Extend(deadline.Now() + time.Hour)
	if err := syscall.Kill(g.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost
	if err := g.Process(sleeper(t).Process.Pid); err == nil {
		t.Error("a process began without a watcher")
	}
}

// TestHostDies checks that the watcher kills the processes when the host's socket is closed, as it is when the host
// dies.
func TestHostDies(t *testing.T) {
	g := guard(t, func() {})
	g.Extend(deadline.Now() + time.Hour)
	c := sleeper(t)
	if err := g.Process(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	ended(t, c)
}
