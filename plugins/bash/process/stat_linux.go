package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

var self = os.Getpid()

var selfSession = sync.OnceValue(func() int {
	sid, _ := unix.Getsid(0)
	return sid
})

// stat is what /proc tells of a process.
type stat struct {
	pid, ppid, group, sid int
	state                 byte
	birth                 uint64 // in clock ticks since boot
}

// snapshot gives all processes that can be seen. Those that end meanwhile are left out.
func snapshot() []stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	procs := make([]stat, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		if s, err := readStat(pid); err == nil {
			procs = append(procs, s)
		}
	}
	return procs
}

var errStat = errors.New("process: /proc/PID/stat is not as expected")

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name is in parentheses and may hold anything, parentheses too.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return stat{}, errStat
	}
	s := stat{pid: pid, state: f[0][0]}
	for i, to := range []*int{&s.ppid, &s.group, &s.sid} {
		if *to, err = strconv.Atoi(string(f[i+1])); err != nil {
			return stat{}, errStat
		}
	}
	if s.birth, err = strconv.ParseUint(string(f[19]), 10, 64); err != nil {
		return stat{}, errStat
	}
	return s, nil
}

// members gives the processes that belong to the tree.
func (t *Tree) members(procs []stat) []stat {
	return descend(procs, func(p stat) bool {
		if p.birth < t.birth || p.pid == t.pid && t.birth != 0 && p.birth != t.birth {
			return false
		}
		return p.sid == t.pid || p.group == t.pid || marked(p.pid, t.mark)
	})
}

// marked reports whether a process has the mark in its environment.
func marked(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00"))
}

// descend gives the processes that are in, and their descendants.
func descend(procs []stat, in func(stat) bool) []stat {
	below := make(map[int][]stat, len(procs))
	for _, p := range procs {
		below[p.ppid] = append(below[p.ppid], p)
	}
	var found []stat
	seen := make(map[int]bool)
	var add func(p stat)
	add = func(p stat) {
		if seen[p.pid] {
			return
		}
		seen[p.pid] = true
		found = append(found, p)
		for _, child := range below[p.pid] {
			add(child)
		}
	}
	for _, p := range procs {
		if !seen[p.pid] && in(p) {
			add(p)
		}
	}
	return found
}
