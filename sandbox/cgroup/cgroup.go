// Package cgroup limits the resources that all processes of a plugin use together. It requires cgroups of version 2,
// and a cgroup that was delegated to the host.
package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are the limits for all processes of a group together. A zero field means no limit.
type Limits struct {
	// Memory limits the memory in bytes, including file caches that cannot be dropped.
	Memory uint64 `json:"memory,omitempty"`
	// Processes limits the number of processes and threads.
	Processes uint64 `json:"processes,omitempty"`
	// CPUs limits the CPU time, as a number of processors. It can be a fraction, such as 1.5.
	CPUs float64 `json:"cpus,omitempty"`
}

// None reports whether no limit is set.
func (l Limits) None() bool { return l == Limits{} }

// controllers lists the cgroup controllers that Limits requires.
var controllers = []string{"cpu", "memory", "pids"}

// NotDelegatedError means that the cgroup of this process cannot be divided. A process can do this in a cgroup of its
// own, such as a scope of systemd with Delegate=yes.
type NotDelegatedError struct{ Path, Reason string }

func (e *NotDelegatedError) Error() string { return "the cgroup " + e.Path + " " + e.Reason }

// own is the name of the child cgroup to which the host moves. A cgroup with limited children must not contain
// processes itself.
const own = "toolhost-host"

// Tree is the cgroup of this process, in which groups can be created. It is safe for concurrent use.
type Tree struct {
	dir string

	mu      sync.Mutex
	divided bool
}

// made counts the groups that this process has created in all trees.
var made atomic.Int64

// Find returns the cgroup of this process. If groups cannot be created in it, the error can be a [NotDelegatedError].
// Find changes nothing. mounts is the directory of cgroups, /sys/fs/cgroup. proc is the directory of this process,
// /proc/self.
func Find(mounts, proc string) (*Tree, error) {
	text, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("there are no cgroups: %w", err)
	}
	path, found := "", false
	for line := range strings.Lines(string(text)) {
		if path, found = strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			break
		}
	}
	dir := filepath.Join(mounts, filepath.Clean("/"+path))
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if !found || err != nil {
		return nil, errors.New("cgroups of version 2 are not available: start the system with systemd.unified_cgroup_hierarchy=1")
	}
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(have)), c) {
			return nil, &NotDelegatedError{path, "does not have the controller " + c}
		}
	}
	if filepath.Base(dir) == own { // an earlier configuration moved the host to the child cgroup
		dir = filepath.Dir(dir)
	}
	for _, name := range []string{".", "cgroup.procs", "cgroup.subtree_control"} {
		if !writable(filepath.Join(dir, name)) {
			return nil, &NotDelegatedError{path, "belongs to another user"}
		}
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("the cgroup %s cannot be read: %w", path, err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return nil, &NotDelegatedError{path, "contains other processes too"}
		}
	}
	return &Tree{dir: dir}, nil
}

// divide moves this process to a child cgroup. It then enables the controllers for the other child cgroups.
func (t *Tree) divide() error {
	if t.divided {
		return nil
	}
	host := filepath.Join(t.dir, own)
	if err := os.Mkdir(host, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // a cgroup
		return err
	}
	if err := write(host, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := write(t.dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +")); err != nil {
		return err
	}
	t.divided = true
	return nil
}

// Group is a cgroup for a process and its child processes.
type Group struct {
	dir string
	// Dir is the open directory of the group. A process can be started in the group with it.
	Dir *os.File
}

// Make creates a group with limits. The name only helps people to recognize the group.
func (t *Tree) Make(name string, l Limits) (g *Group, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.divide(); err != nil {
		return nil, fmt.Errorf("no child cgroup can be made in the cgroup %s: %w", t.dir, err)
	}
	dir := filepath.Join(t.dir, fmt.Sprintf("toolhost-%s-%d-%d", name, os.Getpid(), made.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a cgroup
		return nil, fmt.Errorf("a cgroup cannot be made: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(dir)
			err = fmt.Errorf("a cgroup cannot be limited: %w", err)
		}
	}()
	const period = 100_000 // period in microseconds
	for _, f := range []struct {
		name, value string
		set         bool
	}{
		{"memory.max", strconv.FormatUint(l.Memory, 10), l.Memory > 0},
		{"pids.max", strconv.FormatUint(l.Processes, 10), l.Processes > 0},
		{"cpu.max", fmt.Sprintf("%d %d", max(1000, int64(math.Round(l.CPUs*period))), period), l.CPUs > 0},
	} {
		if f.set {
			if err := write(dir, f.name, f.value); err != nil {
				return nil, err
			}
		}
	}
	if l.Memory > 0 { // disable swap, because the memory limit does not count it
		if err := write(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Group{dir: dir, Dir: f}, nil
}

// Remove kills the remaining processes of the group and removes the group.
func (g *Group) Remove() error {
	err := g.Dir.Close()
	if kill := write(g.dir, "cgroup.kill", "1"); kill != nil && !errors.Is(kill, fs.ErrNotExist) { // missing before Linux 5.14
		err = errors.Join(err, kill)
	}
	for range 100 { // wait until the processes have ended
		events, read := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
		if read != nil || !bytes.Contains(events, []byte("populated 1")) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.Join(err, os.Remove(g.dir))
}

func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
