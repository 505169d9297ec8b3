package basewatch

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the events that are watched. After a change of names, the names that the kernel has cached for an overlay
// can be wrong. A change of a file's content is visible at once, because the overlay reads the file of the base. But
// plugins that know the file must be notified.
const (
	namesChange   = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB
	contentChange = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
	selfChange    = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	watched       = namesChange | contentChange | selfChange | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
)

// maxChanged is the maximum number of changed paths that are remembered. If there are more, everything counts as
// changed.
const maxChanged = 4096

// Watch records changes in a base. All branches of the base share it. The kernel queues an event during each change.
// Therefore a call of Read never misses a change that was made before the call.
type Watch struct {
	base string

	mu    sync.Mutex
	fd    int
	paths map[int32]string // paths of directories, by watch
	// ready reports whether all directories are watched. If not, everything counts as changed.
	ready, scanning, full, closed bool
	now                           Position
	// names is the position of the last change of names. All paths count as changed at the position
	// "floor".
	names, floor Position
	changed      map[string]Position
	writing      map[string]struct{} // files that a program has written to but not yet closed
}

// Position counts the changes of a base.
type Position uint64

// New starts to watch the directories of a base in the background.
func New(base string) *Watch {
	w := &Watch{base: base, paths: make(map[int32]string), changed: make(map[string]Position),
		writing: make(map[string]struct{})}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err != nil {
		w.closed = true
	}
	w.scan()
	return w
}

// scan starts to watch all directories in the background. Afterwards, everything counts as changed once, because a
// directory can have changed before it was watched.
func (w *Watch) scan() {
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
			w.full = true // release the watches, because an incomplete set is useless and other programs need watches
			w.closed = true
			_ = unix.Close(w.fd)
		}
	}()
}

// everything records that everything can have changed.
func (w *Watch) everything() {
	w.now++
	w.names, w.floor = w.now, w.now
	clear(w.changed)
}

// add watches a directory and all directories in it. It fails if the system permits no more watches.
func (w *Watch) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // the directory was removed, which the events of its parent report
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed {
			return fs.SkipAll
		}
		// WalkDir reads the directory after this call. Thus each new directory is either found by WalkDir or reported
		// by an event.
		id, err := unix.InotifyAddWatch(w.fd, path, watched)
		switch {
		case err == nil:
			w.paths[int32(id)] = path
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM):
			return err
		}
		return nil // the directory was removed, or this user cannot read it
	})
}

// Read reads the events. It returns the current position and the position of the last change of names.
func (w *Watch) Read() (now, names Position) {
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
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+int(e.Len)]),
				"\x00")
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

// addNew watches new directories. The mutex must be locked. addNew unlocks it meanwhile.
func (w *Watch) addNew(dirs []string) (err error) {
	w.mu.Unlock()
	defer w.mu.Lock()
	for _, dir := range dirs {
		err = errors.Join(err, w.add(dir))
	}
	return err
}

// note records an event. It returns new directories that must be watched.
func (w *Watch) note(e *unix.InotifyEvent, name string) (fresh []string) {
	dir, known := w.paths[e.Wd]
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		w.everything()
		w.scan() // events of new directories can be lost
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
		return nil // for any other directory, an event of its parent reports the same change
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
	case e.Mask&unix.IN_ISDIR == 0 &&
		e.Mask&(unix.IN_CLOSE_WRITE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0:
		delete(w.writing, path)
	case e.Mask&unix.IN_ISDIR != 0 && e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return []string{path}
	case e.Mask&unix.IN_ISDIR != 0 && e.Mask&unix.IN_MOVED_FROM != 0:
		w.forget(path) // if the directory was moved within the base, its new path is watched
	}
	return nil
}

// forget ends the watches of a directory that moved, and of all directories in it.
func (w *Watch) forget(dir string) {
	for id, path := range w.paths {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			delete(w.paths, id)
			_, _ = unix.InotifyRmWatch(w.fd, uint32(id))
		}
	}
}

// Since returns the paths that changed after a position. If all is true, everything can have changed.
func (w *Watch) Since(p Position) (paths []string, all bool) {
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
			paths = append(paths, path) // a write through a memory mapping causes no event
		}
	}
	return paths, false
}

// Close ends the watch. After that, Read repeats its last result.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		_ = unix.Close(w.fd)
	}
}
