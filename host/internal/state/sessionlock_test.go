package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func take(t *testing.T, l *Locks, session string) (release func(), fresh bool) {
	t.Helper()
	release, fresh, err := l.Take(t.Context(), session, func() string { return "label" }, func(Holder) {})
	if err != nil {
		t.Fatal(err)
	}
	return release, fresh
}

// TestProcessesExcludeEachOther checks that two processes never hold the same lock. It uses two Locks instead of two
// processes, which is equivalent: the kernel's locks belong to open files.
func TestProcessesExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	save := func() error { return nil }
	var inside atomic.Int32
	var wg sync.WaitGroup
	for _, l := range []*Locks{NewLocks(dir, save), NewLocks(dir, save)} {
		wg.Go(func() {
			for range 5 {
				first, _ := take(t, l, "s")
				second, again := take(t, l, "s") // calls of one process share the lock
				if again {
					t.Error("the second call of a process locked again")
				}
				first()
				if inside.Add(1) != 1 {
					t.Error("both processes hold the lock")
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				second()
				second() // a second call is allowed
				l.Close()
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// TestCanceledWait checks a call whose wait is canceled. The call must get the name of the holder, and the lock must
// stay usable.
func TestCanceledWait(t *testing.T) {
	dir := t.TempDir()
	var unsaved atomic.Bool
	unsaved.Store(true)
	a := NewLocks(dir, func() error {
		if unsaved.Load() {
			return errors.New("the disk is full")
		}
		return nil
	})
	b := NewLocks(dir, func() error { return nil })
	release, _ := take(t, a, "s")
	ctx, cancel := context.WithCancel(t.Context())
	var holder Holder
	_, _, err := b.Take(ctx, "s", func() string { return "" }, func(h Holder) {
		holder = h
		cancel()
	})
	if !errors.Is(err, context.Canceled) || holder.PID != os.Getpid() || !strings.Contains(holder.String(), "(label)") {
		t.Errorf("%v %v", err, holder)
	}
	if len(b.held) != 0 {
		t.Errorf("%v", b.held)
	}
	other, fresh := take(t, b, "other") // locks of other sessions must be free
	if !fresh {
		t.Error("a new lock is not fresh")
	}
	other()
	release()
	ctx, cancel = context.WithTimeout(t.Context(), 5*linger)
	defer cancel()
	if _, _, err := b.Take(ctx, "s", func() string { return "" }, func(Holder) {}); err == nil {
		t.Error("a session that could not be saved was released")
	}
	unsaved.Store(false)
	next, fresh := take(t, b, "s")
	if !fresh {
		t.Error("the session is not fresh after another process held it")
	}
	next()
	b.Close()
}

// TestAwaitEnd checks that a caller waits for a holder that is still ending, but not for a holder that has ended.
func TestAwaitEnd(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if ended(pid) {
		t.Error("a living process counts as ended")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if awaitEnd(ctx, pid); ctx.Err() == nil {
		t.Error("nothing waited for a living process")
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" { // on Linux, a process that is not reaped counts as ended
		awaitEnd(t.Context(), pid)
		if !ended(pid) {
			t.Error("a killed process does not count as ended")
		}
	}
	_ = c.Wait()
	if !ended(pid) {
		t.Error("a process that is gone does not count as ended")
	}
}

// TestTakeAfterAKill checks that Take returns the lock of a killed holder only after the end of the holder.
func TestTakeAfterAKill(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l := NewLocks(dir, func() error { return nil })
	release, _ := take(t, l, "s") // creates the directory
	release()
	l.Close()
	sum := sha256.Sum256([]byte("s"))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16])+suffix)
	if err := os.WriteFile(path, fmt.Appendf(nil, "{\"pid\":%d}\n", c.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() {
		close(killed)
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if _, fresh := take(t, l, "s"); !fresh {
		t.Error("the session need not be read again")
	}
	select {
	case <-killed:
	default:
		t.Error("the lock was given while its last holder was alive")
	}
}

// TestLockIsNoFile checks that Take immediately fails if the lock file is a pipe, a link or a directory.
func TestLockIsNoFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "x"), path) },
	} {
		dir := t.TempDir()
		sum := sha256.Sum256([]byte("s"))
		if err := put(filepath.Join(dir, fmt.Sprintf("%x", sum[:16])+suffix)); err != nil {
			t.Fatal(err)
		}
		l := NewLocks(dir, func() error { return nil })
		done := make(chan error, 1)
		go func() {
			_, _, err := l.Take(t.Context(), "s", func() string { return "label" }, func(Holder) {})
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: the session was locked", name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the call hangs", name)
		}
	}
}
