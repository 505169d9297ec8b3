package execgate

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxInterpreters is the number of scripts whose interpreters are scripts again. The kernel has the same limit.
const maxInterpreters = 4

// scriptLine returns the first line of a script without "#!", or "" for another file. The argument fd is the file. It does
// not wait for a process that has a lease on the file: it returns EAGAIN, and the program can be executed again.
func scriptLine(fd int) (string, unix.Errno) {
	f, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil { // whether the file is a script is unknown
		return "", number(err)
	}
	defer unix.Close(f) //nolint:errcheck // only read
	var buf [256]byte   // the kernel reads as much
	n, err := unix.Pread(f, buf[:], 0)
	if err != nil {
		return "", number(err)
	}
	line, found := bytes.CutPrefix(buf[:n], []byte("#!"))
	if !found {
		return "", 0
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte{0})
	return strings.Trim(string(line), " \t"), 0
}

// interpret finds the interpreters of a script, as the kernel does. The argument fd is the file of the execution.
func interpret(e *Execution, fd int, st *unix.Stat_t) unix.Errno {
	opened := -1
	defer func() {
		if opened >= 0 {
			_ = unix.Close(opened)
		}
	}()
	for range maxInterpreters {
		line, errno := scriptLine(fd)
		if line == "" {
			return errno
		}
		name, arg := line, ""
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			name, arg = line[:i], strings.Trim(line[i:], " \t")
		}
		next := &Execution{Asked: name, Argv: []string{name}, Dir: e.Dir, PID: e.PID, thread: e.thread}
		if arg != "" {
			next.Argv = append(next.Argv, arg)
		}
		next.Argv = append(next.Argv, e.Asked)
		if len(e.Argv) > 0 {
			next.Argv = append(next.Argv, e.Argv[1:]...)
		}
		at, errno := file(e.thread, unix.AT_FDCWD, name, e.Dir, 0)
		if errno != 0 {
			return errno
		}
		if opened >= 0 {
			_ = unix.Close(opened)
		}
		fd, opened = at, at
		if err := unix.Fstat(fd, st); err != nil {
			return number(err)
		}
		next.Path, next.Device, next.Inode = pathOf(fd), st.Dev, st.Ino
		e.Interpreter, e = next, next
	}
	return 0
}
