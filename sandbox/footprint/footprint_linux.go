package footprint

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Machine returns the memory of this machine or container, in bytes. It returns 0 if the size is unknown.
var Machine = sync.OnceValue(func() uint64 {
	total, ok := value("/proc/meminfo", "MemTotal:")
	if !ok {
		return 0
	}
	const cgroups = "/sys/fs/cgroup"
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var files []string
		switch {
		case parts[0] == "0":
			files = []string{filepath.Join(cgroups, parts[2], "memory.max"), filepath.Join(cgroups, "memory.max")}
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			files = []string{filepath.Join(cgroups, "memory", parts[2], "memory.limit_in_bytes"),
				filepath.Join(cgroups, "memory/memory.limit_in_bytes")}
		}
		for _, f := range files {
			b, _ := os.ReadFile(f)
			if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				total = min(total, n)
			}
		}
	}
	return total
})

// machineUsed returns the memory that the whole machine uses and cannot drop, in bytes.
func machineUsed() uint64 {
	total, ok := value("/proc/meminfo", "MemTotal:")
	available, also := value("/proc/meminfo", "MemAvailable:")
	if !ok || !also || available > total {
		return math.MaxUint64
	}
	return total - available
}

// value returns the value of a line such as "RssAnon: 12 kB", in bytes.
func value(path, name string) (bytes uint64, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		rest, found := strings.CutPrefix(line, name)
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			n, err := strconv.ParseUint(fields[0], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// tree returns a process with its descendants and the members of its process group.
func tree(pid int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]process)
	var members []process
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok := read(id)
		switch {
		case !ok:
		case p.pid == pid || p.group == pid:
			members = append(members, p)
		default:
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for i := 0; i < len(members); i++ {
		members = append(members, children[members[i].pid]...)
		delete(children, members[i].pid)
	}
	for i := range members {
		members[i].anonymous, _ = value(members[i].file("status"), "RssAnon:")
	}
	return members
}

// read reads a process. It returns false if the process has ended.
func read(pid int) (p process, ok bool) {
	p.pid = pid
	b, err := os.ReadFile(p.file("stat"))
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if err != nil || open < 0 || end < open {
		return p, false
	}
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 20 {
		return p, false
	}
	p.name, p.began = string(b[open+1:end]), fields[19]
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	return p, true
}

func (p *process) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.pid), name)
}

// exact returns the process's share of anonymous memory. The kernel needs milliseconds to compute the share.
func (p *process) exact() uint64 {
	if n, ok := value(p.file("smaps_rollup"), "Pss_Anon:"); ok {
		return n
	}
	return p.anonymous
}

// kill kills the process. It reports whether the process still existed.
func (p *process) kill() bool {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return false
	}
	defer handle.Release() //nolint:errcheck // only frees it
	if now, ok := read(p.pid); !ok || now.began != p.began {
		return false
	}
	return handle.Kill() == nil
}
