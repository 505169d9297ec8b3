package execgate

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// life distinguishes a process from later processes with the same id.
type life struct {
	parent int
	start  uint64
}

// stat returns the fields in the file /proc/PID/stat of a process or thread, beginning with the third field.
func stat(pid int, buf []byte) (fields [][]byte) {
	fd, err := unix.Open(procPath(pid, "stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd)
	if err != nil {
		return nil
	}
	_, rest, ok := cutLast(buf[:n], ')')
	if fields = bytes.Fields(rest); !ok || len(fields) < 48 {
		return nil
	}
	return fields
}

// These are indexes of the fields; see proc_pid_stat(5).
const (
	fieldParent  = 4 - 3
	fieldThreads = 20 - 3
	fieldStart   = 22 - 3
)

// lifeOf returns the parent, the start time and the number of threads of a process. It returns false if the process no
// longer exists.
func lifeOf(pid int) (l life, threads int, ok bool) {
	var buf [1024]byte
	fields := stat(pid, buf[:])
	if fields == nil {
		return life{}, 0, false
	}
	parent, err := strconv.Atoi(string(fields[fieldParent]))
	if err != nil {
		return life{}, 0, false
	}
	if threads, err = strconv.Atoi(string(fields[fieldThreads])); err != nil {
		return life{}, 0, false
	}
	start, err := strconv.ParseUint(string(fields[fieldStart]), 10, 64)
	return life{parent, start}, threads, err == nil
}

// processOf returns the process of a thread.
func processOf(thread int) (pid int, l life, ok bool) {
	l, threads, ok := lifeOf(thread)
	if !ok || threads == 1 {
		return thread, l, ok
	}
	b, err := os.ReadFile(procPath(thread, "status"))
	if err != nil {
		return 0, life{}, false
	}
	_, rest, _ := bytes.Cut(b, []byte("\nTgid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if pid, err = strconv.Atoi(string(bytes.TrimSpace(line))); err != nil {
		return 0, life{}, false
	}
	if pid != thread {
		l, _, ok = lifeOf(pid)
	}
	return pid, l, ok
}

// layout contains addresses in the memory of a process. The kernel chooses random addresses when a program is executed.
// A forked process has the same addresses as its parent.
type layout [5]string

// layoutOf returns the layout of a process. It returns false if the kernel hides the layout.
func layoutOf(pid int) (out layout, ok bool) {
	var buf [1024]byte
	fields := stat(pid, buf[:])
	if fields == nil {
		return out, false
	}
	for i, number := range []int{26, 27, 28, 48, 50} { // fields of the code, stack, argument and environment addresses
		out[i] = string(fields[number-3])
	}
	return out, out[2] != "0" && out[3] != "0"
}

func cutLast(b []byte, sep byte) (before, after []byte, found bool) {
	i := bytes.LastIndexByte(b, sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// maxKnown limits the number of processes with a stored call.
const maxKnown = 4096

// maxDepth limits the number of parents to examine.
const maxDepth = 64

// family attributes processes to calls. A process belongs to the call of its nearest ancestor whose call is known.
type family struct {
	plugin int

	mu    sync.Mutex
	known map[int]kin
}

type ancestor struct {
	pid   int
	start uint64
}

type kin struct {
	start uint64
	call  *Call
}

// position describes the position of a process among the descendants of the plugin.
type position struct {
	pid  int
	self life
	// top is the topmost ancestor below the plugin, or an ancestor that lost its parent. It can be the process itself.
	top     int
	topLife life
	// line contains the process and its parents, up to the process top.
	line []ancestor
	// call is the call of the process or of an ancestor. Nil means that the call is unknown.
	call *Call
}

// starts reports whether the plugin itself starts a program in the process. The process must be a fork of the plugin
// that has not yet executed a program. It is not sufficient to compare the parent and the binary: the plugin can adopt
// an orphaned process, which can also run the plugin's binary.
func (f *family) starts(p *position) bool {
	if p.self.parent != f.plugin && p.pid != f.plugin {
		return false
	}
	own, ok := layoutOf(p.pid)
	plugin, known := layoutOf(f.plugin)
	return ok && known && own == plugin
}

func (f *family) find(thread int) (p position, ok bool) {
	pid, self, ok := processOf(thread)
	if !ok {
		return position{}, false
	}
	p = position{pid: pid, self: self, top: pid, topLife: self}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { p.line = append(p.line, ancestor{p.top, p.topLife.start}) }()
	for range maxDepth {
		if p.top == f.plugin {
			break
		}
		if k, known := f.known[p.top]; known && k.start == p.topLife.start {
			p.call = k.call
			return p, true
		}
		if p.topLife.parent == f.plugin || p.topLife.parent <= 1 {
			break
		}
		next, _, ok := lifeOf(p.topLife.parent)
		if !ok {
			break
		}
		p.line = append(p.line, ancestor{p.top, p.topLife.start})
		p.top, p.topLife = p.topLife.parent, next
	}
	return p, true
}

// learn stores the call of the topmost ancestor of a process.
func (f *family) learn(p *position, c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = make(map[int]kin)
	}
	if len(f.known) >= maxKnown {
		for pid, k := range f.known {
			if l, _, ok := lifeOf(pid); !ok || l.start != k.start {
				delete(f.known, pid)
			}
		}
		if len(f.known) >= maxKnown {
			clear(f.known)
		}
	}
	f.known[p.top] = kin{p.topLife.start, c}
}

// dirOf returns the working directory of a process.
func dirOf(pid int) string {
	dir, err := os.Readlink(procPath(pid, "cwd"))
	if err != nil {
		return ""
	}
	return dir
}

// argsOf returns the beginning of the arguments of a process.
func argsOf(pid int) []string {
	f, err := os.Open(procPath(pid, "cmdline"))
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, maxArgv)
	n, err := f.Read(b)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b[:n]), "\x00"), "\x00")
}

// maxPrevious is the maximum number of earlier programs that are stored for each process.
const maxPrevious = 3

// lineage stores the last programs of each process.
type lineage struct {
	mu  sync.Mutex
	ran map[ancestor][]*Execution // last programs of each process, the newest first
}

// executed stores a program that a process is allowed to execute.
func (l *lineage) executed(e *Execution) {
	self, _, ok := lifeOf(e.PID)
	if !ok {
		return
	}
	kept := *e
	kept.Argv, kept.Ancestors, kept.Files = shorten(e.Argv), nil, nil
	for at := &kept; at.Interpreter != nil; at = at.Interpreter {
		i := *at.Interpreter
		i.Argv, i.Files = shorten(i.Argv), nil
		at.Interpreter = &i
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ran == nil {
		l.ran = make(map[ancestor][]*Execution)
	}
	if len(l.ran) >= maxKnown {
		for a := range l.ran {
			if life, _, ok := lifeOf(a.pid); !ok || life.start != a.start {
				delete(l.ran, a)
			}
		}
		if len(l.ran) >= maxKnown {
			clear(l.ran)
		}
	}
	key := ancestor{e.PID, self.start}
	before := l.ran[key]
	l.ran[key] = append([]*Execution{&kept}, before[:min(len(before), maxPrevious)]...)
}

// executedBy returns the programs that a process and its parents executed.
func (l *lineage) executedBy(p *position) (out []*Execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range p.line {
		out = append(out, l.ran[a]...)
	}
	return out
}
