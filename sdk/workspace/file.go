package workspace

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"
)

// Stat returns the current type, mode, size and times of the file at p. It does not follow a symbolic link that
// replaced the file after p was resolved.
func (w *Workspace) Stat(p Path) (fs.FileInfo, error) {
	if err := w.usable(p); err != nil {
		return nil, err
	}
	info, err := p.tree.dir.Lstat(p.rel)
	if err != nil {
		return nil, fail("look up", p.abs, err)
	}
	return info, nil
}

// Open opens a regular file for reading. It never blocks. It returns an error for a directory, a FIFO, a device or a
// socket.
func (w *Workspace) Open(p Path) (*os.File, error) {
	f, _, err := w.open(p)
	return f, err
}

func (w *Workspace) open(p Path) (*os.File, fs.FileInfo, error) {
	if err := w.usable(p); err != nil {
		return nil, nil, err
	}
	if p.exists && p.mode.Type() != 0 && p.mode.Type() != fs.ModeSymlink {
		return nil, nil, notRegular(p.abs, p.mode) // do not open the file, because opening a device can have side effects
	}
	return openRegular(p.tree.dir, p.rel, p.abs)
}

// openRegular opens a regular file in dir. Error messages contain the argument "shown" instead of the name.
func openRegular(dir *os.Root, name, shown string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fail("read", shown, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(shown, info.Mode())
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fail("read", shown, err)
	}
	return f, info, nil
}

func notRegular(path string, mode fs.FileMode) error {
	what, next := "not a regular file", "Give the path of a regular file."
	switch {
	case mode.IsDir():
		what, next = "a directory", "List the directory, or give the path of a file in it."
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe (FIFO)"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return tool.Errorf(tool.InvalidArguments, "%s is %s, not a regular file. %s", path, what, next)
}

// usable returns an error if p is a zero Path or the workspace is closed.
func (w *Workspace) usable(p Path) error {
	switch {
	case p.tree == nil:
		return tool.Errorf(tool.Internal, "The tool used a path that it did not resolve. This is a bug in the tool. Report it to the tool's author.")
	case w.closed.Load():
		return errClosed()
	}
	return nil
}

// readTries is the maximum number of times that ReadFile reads a file that changes during the read.
const readTries = 3

// ReadFile reads a whole regular file of at most limit bytes. The content is consistent: if the file changes during the
// read, ReadFile reads the file again. If the file keeps changing, ReadFile returns a Conflict. The error for a larger
// file wraps [ErrTooLarge].
func (w *Workspace) ReadFile(p Path, limit int64) (*Snapshot, error) {
	f, info, err := w.open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return snapshot(p, f, info, limit)
}

func snapshot(p Path, f *os.File, info fs.FileInfo, limit int64) (*Snapshot, error) {
	for range readTries {
		if info.Size() > limit {
			return nil, tooLarge(p.abs, info.Size(), limit)
		}
		data, hash, err := readHashed(f, info.Size(), limit)
		if err != nil {
			if errors.Is(err, ErrTooLarge) {
				return nil, tooLarge(p.abs, int64(len(data)), limit)
			}
			return nil, fail("read", p.abs, err)
		}
		after, err := f.Stat()
		if err != nil {
			return nil, fail("read", p.abs, err)
		}
		if after.ModTime().Equal(info.ModTime()) && after.Size() == info.Size() {
			return newSnapshot(p, data, sync.OnceValue(hash), info), nil
		}
		info = after
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, fail("read", p.abs, err)
		}
	}
	return nil, tool.Errorf(tool.Conflict, "Another program is writing to %s: the file changed during each of %d attempts to read it. Try again when the file no longer changes.", p.abs, readTries)
}

// readChunk is the number of bytes that are hashed while the following bytes are read.
const readChunk = 128 << 10

// readHashed reads a file as readAll does and also computes the SHA-256 of the data. It hashes a large file
// concurrently with reading. The returned function hash waits for the SHA-256. It must be called at most once.
func readHashed(r io.Reader, size, limit int64) (data []byte, hash func() [sha256.Size]byte, err error) {
	if size <= readChunk {
		data, err = readAll(r, size, limit, func([]byte) {})
		return data, func() [sha256.Size]byte { return sha256.Sum256(data) }, err
	}
	chunks, sum := make(chan []byte, 8), make(chan [sha256.Size]byte, 1)
	go func() {
		h := sha256.New()
		for c := range chunks {
			h.Write(c)
		}
		sum <- [sha256.Size]byte(h.Sum(nil))
	}()
	data, err = readAll(r, size, limit, func(chunk []byte) { chunks <- chunk })
	close(chunks)
	return data, func() [sha256.Size]byte { return <-sum }, err
}

// readAll reads a file whose reported size can be wrong. For example, the reported size is zero in /proc. It reads at
// most one byte more than limit. It passes each chunk of the data to the function "got", in order. A passed chunk does
// not change afterwards.
func readAll(r io.Reader, size, limit int64, got func([]byte)) ([]byte, error) {
	data := Scratch(int(max(min(size, limit), 512)))
	for {
		n, err := r.Read(data[len(data):min(int64(cap(data)), int64(len(data))+readChunk, limit+1)])
		got(data[len(data) : len(data)+n])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return data, ErrTooLarge
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err
		case int64(len(data)) == size && size > 0:
			return data, nil // the file has its reported size, which the caller checks again
		case len(data) == cap(data):
			data = slices.Grow(data, 512)
		}
	}
}

func tooLarge(path string, size, limit int64) error {
	return tool.Errorf(tool.InvalidArguments, "%s is too large: it has %s, and the limit is %s. Use a shell command for a part of the file.", path, text.FormatSize(size), text.FormatSize(limit)).
		WithCause(ErrTooLarge)
}

// OpenDir opens a directory for reading in parts with [os.File.ReadDir].
func (w *Workspace) OpenDir(p Path) (*os.File, error) {
	if err := w.usable(p); err != nil {
		return nil, err
	}
	f, err := p.tree.dir.OpenFile(p.rel, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		if info, e := p.tree.dir.Lstat(p.rel); e == nil && !info.IsDir() {
			return nil, tool.Errorf(tool.InvalidArguments, "%s is not a directory. Give the path of a directory, or read the file.", p.abs).WithCause(err)
		}
	}
	return nil, fail("list", p.abs, err)
}

// ReadDir reads at most limit entries of a directory and sorts them by name. A limit of 0 means all entries. The result
// "more" reports whether the directory has further entries. If there are more than limit entries, the file system
// determines which of them are returned. ReadDir follows no symbolic links.
func (w *Workspace) ReadDir(p Path, limit int) (entries []fs.DirEntry, more bool, err error) {
	f, err := w.OpenDir(p)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	n := -1
	if limit > 0 {
		n = limit
	}
	entries, err = f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fail("list", p.abs, err)
	}
	if limit > 0 && len(entries) == limit {
		names, _ := f.Readdirnames(1)
		more = len(names) > 0
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, more, nil
}

// Lstat returns the type, mode, size and times of the entry called name in the directory p. It does not follow a
// symbolic link.
func (w *Workspace) Lstat(p Path, name string) (fs.FileInfo, error) {
	if err := w.usable(p); err != nil {
		return nil, err
	}
	info, err := p.tree.dir.Lstat(filepath.Join(p.rel, name))
	if err != nil {
		return nil, fail("look at", filepath.Join(p.abs, name), err)
	}
	return info, nil
}

// Readlink returns the target of the symbolic link called name in the directory p. The target is for display only. To
// follow the link, resolve its path.
func (w *Workspace) Readlink(p Path, name string) (string, error) {
	if err := w.usable(p); err != nil {
		return "", err
	}
	target, err := p.tree.dir.Readlink(filepath.Join(p.rel, name))
	if err != nil {
		return "", fail("read the link", filepath.Join(p.abs, name), err)
	}
	return target, nil
}

// Names returns at most limit names of entries of a directory, in no particular order. A limit of 0 means all names.
// Names is cheaper than [Workspace.ReadDir].
func (w *Workspace) Names(p Path, limit int) ([]string, error) {
	f, err := w.OpenDir(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if limit == 0 {
		limit = -1
	}
	names, err := f.Readdirnames(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fail("list", p.abs, err)
	}
	return names, nil
}
