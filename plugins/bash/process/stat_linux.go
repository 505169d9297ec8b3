package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var self = os.Getpid()

var selfSession = sync.OnceValue(func() int {
	sid, _ := unix.Getsid(0)
	return sid
})

// stat contains the data of a process from /proc.
type stat struct {
	pid, ppid, group, sid int
	state                 byte
	birth                 uint64 // start time in clock ticks since boot
}

// snapshot returns all visible processes. Processes that end during the scan can be missing.
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

var errStat = errors.New("process: unexpected format of /proc/PID/stat")

// readFile reads a file of /proc. It is faster than os.ReadFile, because it avoids the overhead of the poller. The
// speed matters because the plugin reads such files for each command.
func readFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	b, err := readAll(fd)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return b, nil
}

// readAll reads a file of /proc from its beginning and ignores the file's offset.
func readAll(fd int) ([]byte, error) {
	b := make([]byte, 0, 1024)
	for {
		n, err := unix.Pread(fd, b[len(b):cap(b)], int64(len(b)))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return b, err
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
	}
}

func readStat(pid int) (stat, error) {
	b, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The second field is the name of the program in parentheses. The name can itself contain parentheses.
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

// adopted returns the adopted orphans, which are the children of this process's first thread. The kernel
// assigns orphans to the first live thread. In Go, the first thread lives as long as the process. Keepers start no
// commands on the first thread.
func adopted() ([]int, error) {
	list, err := childrenList()
	if err != nil {
		return nil, err
	}
	b, err := readAll(list)
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of this process's children: %w", err)
	}
	var pids []int
	for _, f := range bytes.Fields(b) {
		pid, err := strconv.Atoi(string(f))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// listed contains the file descriptor that childrenList returns. It is 0 until the file is open.
var listed struct {
	sync.Mutex
	fd int
}

// childrenList opens the file of /proc that [adopted] reads. The file stays open, because it is read for each
// command.
func childrenList() (int, error) {
	listed.Lock()
	defer listed.Unlock()
	if listed.fd != 0 {
		return listed.fd, nil
	}
	path := "/proc/self/task/" + strconv.Itoa(self) + "/children"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	listed.fd = fd
	return fd, nil
}

// ticksPerSecond is the kernel's USER_HZ on all systems that Go supports.
const ticksPerSecond = 100

// ticks returns the time since boot in the unit of stat.birth. It returns 0 if the time is unknown.
func ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano()) / (1e9 / ticksPerSecond)
}

// members returns the processes that belong to the tree.
func (t *Tree) members(procs []stat) []stat {
	return descend(procs, func(p stat) bool {
		if p.birth < t.birth || p.pid == t.pid && t.birth != 0 && p.birth != t.birth {
			return false
		}
		return p.sid == t.pid || p.group == t.pid || marked(p.pid, t.mark)
	})
}

// marked reports whether the environment of a process contains the mark of a command.
func marked(pid int, mark string) bool {
	env, err := readFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00"))
}

// descend returns all processes that the predicate accepts, and the descendants of these processes.
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

// Reading reports whether a process of the tree waits for input from a person or a caller. Such a process reads from
// the pipe with the given inode number, or from a terminal. Reading detects only processes that are blocked in a
// read call. Processes in an event loop are not detected.
func (t *Tree) Reading(pipe uint64) (fromPipe, fromTerminal bool) {
	link := fmt.Sprintf("pipe:[%d]", pipe)
	for _, p := range t.members(snapshot()) {
		if p.state != 'S' {
			continue
		}
		dir := "/proc/" + strconv.Itoa(p.pid)
		b, err := readFile(dir + "/syscall")
		f := bytes.Fields(b)
		if err != nil || len(f) < 2 || string(f[0]) != strconv.Itoa(unix.SYS_READ) {
			continue
		}
		fd, err := strconv.ParseUint(string(f[1]), 0, 32)
		if err != nil {
			continue
		}
		file, err := os.Readlink(dir + "/fd/" + strconv.FormatUint(fd, 10))
		if err != nil {
			continue
		}
		fromPipe = fromPipe || pipe != 0 && file == link
		fromTerminal = fromTerminal || file == "/dev/tty" || strings.HasPrefix(file, "/dev/pts/")
	}
	return fromPipe, fromTerminal
}

// Programs returns the names of the tree's programs, each with its arguments.
func (t *Tree) Programs() (out [][]string) {
	for _, p := range t.members(snapshot()) {
		name, err := readFile("/proc/" + strconv.Itoa(p.pid) + "/comm")
		line, lineErr := readFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if err == nil && lineErr == nil {
			out = append(out, append([]string{strings.TrimSpace(string(name))},
				strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")[1:]...))
		}
	}
	return out
}
