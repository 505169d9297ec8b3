package branch

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Events that are watched. A change of names can make the kernel's cached names of an overlay wrong. A change of content
// shows at once, because the overlay reads the file of the base, but plugins that know the file must be told.
const (
	namesChange   = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB
	contentChange = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
	selfChange    = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	watched       = namesChange | contentChange | selfChange | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
)

// maxChanged is the maximum number of changed paths that are remembered. If there are more, everything counts as changed.
const maxChanged = 4096

// baseWatch finds out what changed in a base. All branches of the base share it. The kernel queues an event during each
// change, so a change that happened before a call of read is never missed.
type baseWatch struct {
	base  string
	users int // guarded by Mounts.mu

	mu    sync.Mutex
	fd    int
	paths map[int32]string // directories by their watch
	// ready reports whether all directories are watched. Until then, and if that is not possible, everything counts as
	// changed.
	ready, scanning, full, closed bool
	now                           position
	// names is the position of the last change of names. Everything up to floor counts as changed.
	names, floor position
	changed      map[string]position
	writing      map[string]struct{} // files that a program has written and not closed
}

// position counts the changes of a base.
type position uint64

// watchBase starts to watch the directories of a base in the background.
func watchBase(base string) *baseWatch {
	w := &baseWatch{base: base, paths: make(map[int32]string), changed: make(map[string]position), writing: make(map[string]struct{})}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err != nil {
		w.closed = true
	}
	w.scan()
	return w
}

// scan watches all directories in the background. Afterwards, everything counts as changed once, because a directory can
// have changed before its watch began.
func (w *baseWatch) scan() {
	if w.closed || w.scanning || w.full {
		return
	}
	w.scanning, w.ready = true, false
	go func() {
		err := w.add(w.base)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.scanning = false
		w.everything()
		if w.ready = err == nil; err != nil && !w.closed {
			w.full = true // the watches are of no use, and other programs need them
			w.closed = true
			_ = unix.Close(w.fd)
		}
	}()
}

// everything records that everything can have changed.
func (w *baseWatch) everything() {
	w.now++
	w.names, w.floor = w.now, w.now
	clear(w.changed)
}

// add watches a directory and all directories in it. It fails if the system permits no more watches.
func (w *baseWatch) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // the directory is gone, which its parent reports
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed {
			return fs.SkipAll
		}
		// WalkDir reads the directory after this, so it or an event has each new directory.
		id, err := unix.InotifyAddWatch(w.fd, path, watched)
		switch {
		case err == nil:
			w.paths[int32(id)] = path
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM):
			return err
		}
		return nil // the directory is gone, or this user cannot read it
	})
}

// read reads the events. It returns the position now, and the position of the last change of names.
func (w *baseWatch) read() (now, names position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.now
	buf := make([]byte, 64<<10)
	for !w.closed {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		if w.now == before {
			w.now++
		}
		var fresh []string
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at])) //nolint:gosec // the kernel's form of an event
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+int(e.Len)]), "\x00")
			at += unix.SizeofInotifyEvent + int(e.Len)
			fresh = append(fresh, w.note(e, name)...)
		}
		if err := w.addNew(fresh); err != nil {
			w.ready, w.full = false, true
		}
	}
	if !w.ready {
		w.everything()
	}
	return w.now, w.names
}

// addNew watches new directories. The mutex is locked before and after it.
func (w *baseWatch) addNew(dirs []string) (err error) {
	w.mu.Unlock()
	defer w.mu.Lock()
	for _, dir := range dirs {
		err = errors.Join(err, w.add(dir))
	}
	return err
}

// note records an event. It returns the directories that must be watched.
func (w *baseWatch) note(e *unix.InotifyEvent, name string) (fresh []string) {
	dir, known := w.paths[e.Wd]
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		w.everything()
		w.scan() // the events of new directories can be lost
		return nil
	case e.Mask&unix.IN_IGNORED != 0:
		delete(w.paths, e.Wd)
		return nil
	case !known:
		return nil
	case name == "":
		if dir == w.base {
			w.everything()
		}
		return nil // the parent of any other directory reports the same
	}
	path := filepath.Join(dir, name)
	if w.changed[path] = w.now; len(w.changed) > maxChanged {
		w.floor = w.now
		clear(w.changed)
	}
	if e.Mask&namesChange != 0 {
		w.names = w.now
	}
	switch {
	case e.Mask&unix.IN_ISDIR == 0 && e.Mask&unix.IN_MODIFY != 0:
		w.writing[path] = struct{}{}
	case e.Mask&unix.IN_ISDIR == 0 && e.Mask&(unix.IN_CLOSE_WRITE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0:
		delete(w.writing, path)
	case e.Mask&unix.IN_ISDIR != 0 && e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return []string{path}
	case e.Mask&unix.IN_ISDIR != 0 && e.Mask&unix.IN_MOVED_FROM != 0:
		w.forget(path) // if it moved within the base, its new name is watched
	}
	return nil
}

// forget ends the watches of a directory that moved, and of all directories in it.
func (w *baseWatch) forget(dir string) {
	for id, path := range w.paths {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			delete(w.paths, id)
			_, _ = unix.InotifyRmWatch(w.fd, uint32(id))
		}
	}
}

// since returns the paths that changed after a position. If all is true, everything can have changed.
func (w *baseWatch) since(p position) (paths []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p < w.floor {
		return nil, true
	}
	for path, at := range w.changed {
		if at > p {
			paths = append(paths, path)
		}
	}
	for path := range w.writing {
		if w.changed[path] <= p {
			paths = append(paths, path) // a store through a mapping causes no event
		}
	}
	return paths, false
}

func (w *baseWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		_ = unix.Close(w.fd)
	}
}
