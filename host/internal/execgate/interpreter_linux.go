package execgate

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxInterpreters is the number of scripts whose interpreters are scripts again. The kernel has the same limit.
const maxInterpreters = 4

// fileKey identifies the content of a file.
type fileKey struct {
	dev, ino             uint64
	size, mtime, changed int64
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// interpreters remembers which files are scripts. Only one goroutine can use it.
type interpreters map[fileKey]string

// maxInterpreterKeys bounds the remembered files.
const maxInterpreterKeys = 4096

// line returns the first line of a script without "#!", or "" for another file.
func (in *interpreters) line(fd int, st *unix.Stat_t) string {
	key := keyOf(st)
	if line, known := (*in)[key]; known {
		return line
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	defer f.Close()   //nolint:errcheck // only read
	var buf [256]byte // the kernel reads as much
	n, _ := f.ReadAt(buf[:], 0)
	line, found := bytes.CutPrefix(buf[:n], []byte("#!"))
	text := ""
	if found {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		line, _, _ = bytes.Cut(line, []byte{0})
		text = strings.Trim(string(line), " \t")
	}
	if *in == nil || len(*in) >= maxInterpreterKeys {
		*in = make(interpreters)
	}
	(*in)[key] = text
	return text
}

// interpret finds the interpreters of a script, as the kernel does. The argument fd is the file of the execution.
func (in *interpreters) interpret(e *Execution, fd int, st *unix.Stat_t) unix.Errno {
	opened := -1
	defer func() {
		if opened >= 0 {
			_ = unix.Close(opened)
		}
	}()
	for range maxInterpreters {
		line := in.line(fd, st)
		if line == "" {
			return 0
		}
		name, arg := line, ""
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			name, arg = line[:i], strings.Trim(line[i:], " \t")
		}
		next := &Execution{Asked: name, Argv: []string{name}, Dir: e.Dir, PID: e.PID}
		if arg != "" {
			next.Argv = append(next.Argv, arg)
		}
		next.Argv = append(next.Argv, e.Asked)
		if len(e.Argv) > 0 {
			next.Argv = append(next.Argv, e.Argv[1:]...)
		}
		at, errno := file(e.PID, unix.AT_FDCWD, name, e.Dir, 0)
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
