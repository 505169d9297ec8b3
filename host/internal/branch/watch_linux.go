package branch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is the set of events that can make the kernel's cached names of an overlay wrong. A change of content is not
// among them, because the overlay reads the file of the base.
const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// baseWatch finds out whether names in a base changed. The kernel queues an event during each change, so a change that
// happened before a call of changed is never missed.
type baseWatch struct {
	mu    sync.Mutex
	fd    int
	paths map[int32]string // directories by their watch
	// ready reports whether all directories are watched. Until then, and if that is not possible, everything counts as
	// changed.
	ready, dirty, closed bool
}

// watchBase starts to watch the directories of a base in the background.
func watchBase(base string) *baseWatch {
	w := &baseWatch{paths: make(map[int32]string), dirty: true}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err != nil {
		w.closed = true
		return w
	}
	go func() {
		complete := w.add(base)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ready = complete
	}()
	return w
}

// add watches a directory and all directories in it. It returns false if the system permits no more watches.
func (w *baseWatch) add(dir string) bool {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil {
			w.paths[int32(id)] = path
		}
		return err
	})
	return err == nil
}

// changed reports whether names in the base changed since the last call.
func (w *baseWatch) changed() bool {
	w.mu.Lock()
	var fresh []string
	buf := make([]byte, 64<<10)
	for !w.closed {
		n, err := unix.Read(w.fd, buf)
		if n <= 0 || err != nil {
			break
		}
		w.dirty = true
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at])) //nolint:gosec // the kernel's form of an event
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+int(e.Len)]), "\x00")
			at += unix.SizeofInotifyEvent + int(e.Len)
			switch {
			case e.Mask&unix.IN_Q_OVERFLOW != 0:
				w.ready = false // from now on, everything counts as changed
			case e.Mask&unix.IN_IGNORED != 0:
				delete(w.paths, e.Wd)
			case e.Mask&unix.IN_ISDIR != 0 && e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
				fresh = append(fresh, filepath.Join(w.paths[e.Wd], name))
			case e.Mask&unix.IN_ISDIR != 0 && e.Mask&unix.IN_MOVED_FROM != 0:
				w.ready = false // the paths of the directories in it are wrong now
			}
		}
	}
	ready, dirty := w.ready, w.dirty
	w.dirty = w.dirty && !w.ready
	w.mu.Unlock()
	for _, dir := range fresh {
		if !w.add(dir) {
			w.mu.Lock()
			w.ready = false
			w.mu.Unlock()
		}
	}
	return !ready || dirty
}

func (w *baseWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		_ = unix.Close(w.fd)
	}
}
