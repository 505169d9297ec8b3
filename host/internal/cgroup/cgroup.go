// Package cgroup bounds what the processes of a plugin use together, by cgroups of version 2,
// where the host was given one of its own to divide.
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

// Limits of processes together; 0: none.
type Limits struct {
	// Memory in bytes, with that of files in caches that cannot be dropped.
	Memory uint64 `json:"memory,omitempty"`
	// Processes and threads.
	Processes uint64 `json:"processes,omitempty"`
	// CPUs that may be busy at the same time, such as 1.5.
	CPUs float64 `json:"cpus,omitempty"`
}

// None reports whether nothing is limited.
func (l Limits) None() bool { return l == Limits{} }

// controllers that are needed for all of Limits.
var controllers = []string{"cpu", "memory", "pids"}

// advice is how to have a cgroup of one's own.
const advice = "start toolhost in one of its own: systemd-run --user --scope -p Delegate=yes toolhost …"

// own is the cgroup below its own that the host moves to: one that is divided has no processes.
const own = "toolhost-host"

// Tree is the cgroup of this process, to be divided. It is safe for concurrent use.
type Tree struct {
	dir string

	mu      sync.Mutex
	divided bool
}

// made counts the groups of this process, whatever tree they are in.
var made atomic.Int64

// Find returns the cgroup of this process, or an error if it cannot be divided. It changes nothing. mounts is the
// directory of cgroups, /sys/fs/cgroup, and proc that of this process, /proc/self.
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
			return nil, fmt.Errorf("the cgroup %s does not have the controller %s: %s", path, c, advice)
		}
	}
	if filepath.Base(dir) == own { // as a host before it left it
		dir = filepath.Dir(dir)
	}
	for _, name := range []string{".", "cgroup.procs", "cgroup.subtree_control"} {
		if !writable(filepath.Join(dir, name)) {
			return nil, fmt.Errorf("the cgroup %s belongs to another user: %s", path, advice)
		}
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("the cgroup %s cannot be read: %w", path, err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return nil, fmt.Errorf("the cgroup %s contains other processes too: %s", path, advice)
		}
	}
	return &Tree{dir: dir}, nil
}

// divide moves this process out of the way and has the controllers count below.
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

// Group is a cgroup for one process and what it starts.
type Group struct {
	dir string
	// Dir is open on it, to start a process in.
	Dir *os.File
}

// Make makes a group with limits. The name is for people.
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
	const period = 100_000 // microseconds
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
	if l.Memory > 0 { // what is swapped out would not count
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

// Remove ends what is left in the group, and removes it.
func (g *Group) Remove() error {
	err := g.Dir.Close()
	if kill := write(g.dir, "cgroup.kill", "1"); kill != nil && !errors.Is(kill, fs.ErrNotExist) { // before Linux 5.14
		err = errors.Join(err, kill)
	}
	for range 100 { // until they are gone
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
