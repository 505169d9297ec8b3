package execgate

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/fingerprint"
)

// maxInterpreters limits the number of scripts in a chain in which each script has the next script as its interpreter.
// The kernel has the same limit.
const maxInterpreters = 4

// look returns the first line of a script without "#!", and the fingerprint of the file. If the file is not a script,
// the line is "". The argument "fd" is the file, and "size" is the file size in bytes. If another process has a lease
// on the file, look does not wait but returns EAGAIN. The program can be executed again later.
func look(fd int, size int64) (line, content string, errno unix.Errno) {
	f, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil { // return an error, because the file can be a script
		return "", "", number(err)
	}
	defer unix.Close(f) //nolint:errcheck // only read
	var buf [fingerprint.Head]byte
	n, err := unix.Pread(f, buf[:], 0)
	if err != nil {
		return "", "", number(err)
	}
	content = fingerprint.Of(descriptor(f), buf[:n], size)
	first, found := bytes.CutPrefix(buf[:min(n, maxLine)], []byte("#!"))
	if !found {
		return "", content, 0
	}
	first, _, _ = bytes.Cut(first, []byte("\n"))
	first, _, _ = bytes.Cut(first, []byte{0})
	return strings.Trim(string(first), " \t"), content, 0
}

// maxLine is the maximum length of the first line for the kernel, in bytes.
const maxLine = 256

// descriptor is an open file that implements [io.ReaderAt].
type descriptor int

func (d descriptor) ReadAt(b []byte, at int64) (int, error) {
	n, err := unix.Pread(int(d), b, at)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// interpret finds the interpreters of a script in the same way as the kernel. The argument "fd" is the file of the
// execution.
func interpret(e *Execution, fd int, st *unix.Stat_t) unix.Errno {
	opened := -1
	defer func() {
		if opened >= 0 {
			_ = unix.Close(opened)
		}
	}()
	for range maxInterpreters {
		line, content, errno := look(fd, st.Size)
		if e.Fingerprint = content; line == "" {
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
