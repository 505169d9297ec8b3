package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Pids is the cgroup of version 1 in which groups can be created that limit the number of processes. It is safe for
// concurrent use.
type Pids struct{ dir string }

// FindPids returns the cgroup of this process in the hierarchy of version 1 for the number of processes, or an error if
// groups cannot be created in it. It changes nothing. It has the same arguments as [Find].
func FindPids(mounts, proc string) (*Pids, error) {
	text, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("there are no cgroups: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !slices.Contains(strings.Split(parts[1], ","), "pids") {
			continue
		}
		top := filepath.Join(mounts, "pids")
		dir := filepath.Join(top, filepath.Clean("/"+parts[2]))
		if !exists(filepath.Join(dir, "cgroup.procs")) { // in a container, the path can be the path outside of the container
			dir = top
		}
		if !exists(filepath.Join(dir, "cgroup.procs")) || !writable(dir) {
			return nil, fmt.Errorf("the cgroup %s is not this user's", dir)
		}
		return &Pids{dir: dir}, nil
	}
	return nil, errors.New("there is no cgroup of version 1 for the number of processes")
}

// PidsGroup is a cgroup of version 1 that limits the number of processes.
type PidsGroup struct{ dir string }

// prefix begins the names of groups that limit the number of processes. The id of the host follows.
const prefix = "toolhost-pids-"

// Make creates a group for at most n processes and threads. It removes empty groups of hosts that have ended.
func (p *Pids) Make(n uint64) (*PidsGroup, error) {
	p.sweep()
	dir := filepath.Join(p.dir, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a cgroup
		return nil, fmt.Errorf("a cgroup cannot be made: %w", err)
	}
	if err := write(dir, "pids.max", strconv.FormatUint(n, 10)); err != nil {
		_ = os.Remove(dir)
		return nil, fmt.Errorf("a cgroup cannot be limited: %w", err)
	}
	return &PidsGroup{dir: dir}, nil
}

func (p *Pids) sweep() {
	old, _ := filepath.Glob(filepath.Join(p.dir, prefix+"*"))
	for _, dir := range old {
		// The group of a host in another container looks unused, because the host's id is unknown here. Keep new
		// groups, because a plugin of that host can be about to join.
		if st, err := os.Stat(dir); err != nil || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(host); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(dir) // fails if it has processes
		}
	}
}

// Tasks returns the file to which a thread writes 0 to join the group. For a single thread that moves itself, the
// kernel needs 0.1 ms. For a process (cgroup.procs), it needs about 10 ms, because it waits until all processors notice
// that a move begins.
func (g *PidsGroup) Tasks() string { return filepath.Join(g.dir, "tasks") }

// Remove kills the remaining processes of the group and removes the group.
func (g *PidsGroup) Remove() error {
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		procs, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(procs)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
