package freshness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Watcher receives change notifications for directories. If a system call makes a change, the kernel queues the event
// before the call returns. Therefore [Watcher.Drain] returns all changes made before the call of Drain. A Watcher is
// not safe for concurrent use.
type Watcher struct {
	fd  int
	buf []byte
}

// NewWatcher returns a new watcher. It returns an error if the system allows no more inotify instances.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("freshness: inotify: %w", err)
	}
	return &Watcher{fd: fd, buf: make([]byte, 64<<10)}, nil
}

// MaxWatches returns how many directories this user can watch at the same time.
func MaxWatches() int {
	const least = 8192 // the lowest default of any kernel
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		return least
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		return least
	}
	return n
}

// Close ends all watches.
func (w *Watcher) Close() error { return unix.Close(w.fd) }

const interest = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// Add watches an open directory and returns the ID of the watch. A directory that is already watched keeps its ID.
func (w *Watcher) Add(dir *os.File) (int32, error) {
	// Add the watch by file descriptor, because the path can already belong to another directory.
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), interest)
	runtime.KeepAlive(dir)
	return int32(wd), err // #nosec G115 -- watch descriptors are 32 bits wide
}

// Remove ends the watch with that ID.
func (w *Watcher) Remove(id int32) { _, _ = unix.InotifyRmWatch(w.fd, uint32(id)) } // #nosec G115 -- as above

// Drain calls the function "handle" for each event since the last call of Drain. If the result "lost" is true, the
// kernel dropped events because there were too many. In this case, the caller must check everything again.
func (w *Watcher) Drain(handle func(Event)) (lost bool, err error) {
	for {
		n, err := unix.Read(w.fd, w.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n <= 0:
			return lost, nil
		case err != nil:
			return true, err
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				return true, fmt.Errorf("freshness: incomplete inotify event")
			}
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
			mask := binary.NativeEndian.Uint32(b[4:])
			if mask&unix.IN_Q_OVERFLOW != 0 {
				lost = true
			} else {
				handle(Event{
					ID: int32(binary.NativeEndian.Uint32(b)), Name: string(name), // #nosec G115 -- as above
					Gone:    mask&(unix.IN_MOVE_SELF|unix.IN_DELETE_SELF) != 0,
					Ended:   mask&(unix.IN_IGNORED|unix.IN_UNMOUNT) != 0,
					Entries: mask&(unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0,
					Written: mask&unix.IN_MODIFY != 0, Closed: mask&unix.IN_CLOSE_WRITE != 0,
				})
			}
			b = b[size:]
		}
	}
}
