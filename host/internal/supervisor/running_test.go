package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// guarded is a site with the given guard.
type guarded struct {
	Alone
	guard func() error
}

func (g guarded) Guard(int, []tool.Root) error { return g.guard() }

// TestKillStartingProcess checks that KillProcesses also kills a process that is still starting. The plugin then starts
// again, and its new process is passed to the guard.
func TestKillStartingProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	started := 0
	s := New(Options{RuntimeDir: dir, Site: guarded{guard: func() error {
		mu.Lock()
		defer mu.Unlock()
		if started++; started == 2 {
			return errors.New("the second process is not needed")
		}
		return nil
	}}})
	defer s.Close(0)
	p := s.Add(Spec{Name: "p", Path: "/bin/sh", Args: []string{"-c", `touch "$0/runs"; exec sleep 100`, dir}, StartTimeout: time.Minute})
	done := make(chan error, 1)
	go func() { done <- p.waitForStart(t.Context()) }()
	for {
		if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if ended := s.KillProcesses(func([]tool.Root) bool { return false }); len(ended) != 0 {
		t.Error("a process was killed that should go on")
	}
	ended := s.KillProcesses(func([]tool.Root) bool { return true })
	if len(ended) != 1 {
		t.Fatalf("%d processes were killed", len(ended))
	}
	<-ended[0]
	if err := <-done; err == nil || started != 2 {
		t.Errorf("after %d processes: %v", started, err)
	}
}
