// Package index implements the index of a tree. The index contains the files of the tree, the verdicts
// of ignore rules on them, and their text. It is built in the background and updated before each use.
//
// The index contains the directories that a call without options visits, and the files in them. It does not contain
// ignored and hidden directories, the text of very large files, or unreadable files. If a call needs any of these, it
// reads the disk. Therefore the index can be incomplete, but its content must be valid. [Index.sync] makes the content
// valid in these steps:
//
//   - It applies the events of the watched directories. If a system call causes an event, the kernel queues the event
//     before the call returns. In a branch of the workspace, the step also applies the host's reports of changes,
//     because the kernel does not report changes of the workspace, which is the layer below the branch.
//   - It compares directories without a watch. Directories on a network file system have no watch. Other directories
//     have no watch if the system allows no more watches. If events were lost, it compares all directories.
//   - It compares files that have hard links elsewhere, and ignore files outside of the indexed
//     directories.
//   - It rereads files that a program has written and not closed, because stores through a memory
//     mapping cause no event.
//
// Two kinds of changes are detected late. First, if a file is changed only by stores through a memory mapping, the
// change is detected when the mapping ends. Second, if a file with only one name gets a second hard link outside of the
// tree, a write through this link is detected by the next audit.
package index

import (
	"os"
	"sync"
	"sync/atomic"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Index is the index of a tree. Callers must hold mu while they call its methods.
type Index struct {
	mu      sync.RWMutex
	closed  bool
	handle  *os.File // the open root directory
	root    *dir
	store   *content.Store
	watcher *freshness.Watcher // nil if changes are detected only by comparing stamps
	mounts  *freshness.Mounts  // nil if mounts cannot be monitored
	// reported receives the host's reports of changes. It is nil if the host reports none in this tree.
	reported *freshness.Reported
	open     *descriptors // shared limit for the number of directories held open
	mount    uint64       // ID of the root's mount; zero if the ID is unknown
	workers  int
	made     bool // true if the index is complete and calls can read its texts
	// readRule is a function that reads an ignore file outside of the indexed directories.
	readRule func(path string) ([]byte, error)

	files   []*file // all indexed files; the ID of a file is its index in this slice
	free    []uint32
	pending []*file
	watches map[int32][]*dir
	byStat  map[*dir]struct{} // directories without a watch
	// mostWatches is the maximum number of watched directories. The field "refused" is the error of the last failed
	// attempt to add a watch.
	mostWatches int
	refused     error
	linked      map[*file]struct{}
	writing     map[*file]struct{}
	outside     []looked
	above       *ignore.Dir // rules of the directories above the root
	// aboveDir stands for all directories above the root. The slice "outside" refers to it for the ignore files in
	// these directories.
	aboveDir dir
	newLinks []*file
	dirty    map[*dir]map[string]change
	gone     bool // true if the root directory was moved or removed

	entries, dirs int
	events, lost  int64
	generation    uint64
	changed       bool // true if the index has changed since the current generation began

	// failed is the error that caused the index to be closed. It is nil if no error occurred.
	failed error

	viewsMu sync.Mutex
	views   []*view

	progress *atomic.Int64 // number of entries found so far
	stop     <-chan struct{}
	pause    func() // blocks while a call searches the disk
}

// build builds the index of a directory. It takes ownership of handle, the open directory.
func build(handle *os.File, path string, readRule func(string) ([]byte, error), s *Set, progress *atomic.Int64,
	pause func()) (*Index, error) {
	x := &Index{
		handle: handle, store: content.NewStore(s.budget, workers.Number()), workers: workers.Number(),
		readRule: readRule,
		watches:  make(map[int32][]*dir), byStat: make(map[*dir]struct{}), linked: make(map[*file]struct{}),
		writing: make(map[*file]struct{}),
		pause:   pause, open: s.open, dirty: make(map[*dir]map[string]change), stop: s.stop, progress: progress,
	}
	if s.options.Reports != nil && s.options.Freshness != ByStat {
		x.reported = s.options.Reports.Subscribe(path)
	}
	var err error
	if x.mounts, err = freshness.NewMounts(path); err != nil {
		x.mounts, x.refused = nil, err
	}
	if s.options.Freshness != ByStat && x.mounts != nil {
		if x.watcher, err = freshness.NewWatcher(); err != nil {
			x.watcher, x.refused = nil, err
		}
		if x.mostWatches = s.options.Watches; x.mostWatches == 0 {
			x.mostWatches = freshness.MaxWatches() / 2 // leave half of the watches for other programs
		}
	}
	if p, err := walk.OpenProbe(handle, "."); err == nil {
		x.mount, _ = p.Mount()
		p.Close()
	}
	if err := workers.Catch(func() error { return x.fill(path) }); err != nil {
		x.close()
		return nil, err
	}
	x.pause = nil
	return x, nil
}

// fill lists the whole tree and reads its files.
func (x *Index) fill(path string) error {
	x.root = &dir{path: path}
	x.dirs = 1
	x.above = x.reader(&x.aboveDir).Parents(path)
	ok, err := x.list(x.root, false)
	switch {
	case err != nil:
		return err
	case !ok:
		return errStale
	}
	x.store.Making(true)
	x.load()
	x.store.Making(false)
	x.made = true
	x.generation++
	x.changed = false
	if x.stopped() {
		return errStale
	}
	return nil
}

func (x *Index) stopped() bool {
	select {
	case <-x.stop:
		return true
	default:
		return false
	}
}

// yield waits until no call searches the disk, because such calls have precedence over building the index.
func (x *Index) yield() {
	if x.pause != nil {
		x.pause()
	}
}

// whyClosed returns the error for calls that use the index after it was closed.
func (x *Index) whyClosed() error {
	if x.failed != nil {
		return x.failed
	}
	return errStale
}

// close releases the resources of the index. It can be called in any state.
func (x *Index) close() {
	x.closed = true
	for _, free := range []func(){
		func() { x.store.Close() },
		x.releaseAll,
		func() {
			if x.reported != nil {
				x.reported.Close()
			}
			if x.watcher != nil {
				_ = x.watcher.Close()
			}
			if x.mounts != nil {
				_ = x.mounts.Close()
			}
		},
	} {
		_ = workers.Catch(func() error {
			free()
			return nil
		})
	}
	_ = x.handle.Close()
	x.root, x.files, x.views, x.watches, x.dirty = nil, nil, nil, nil, nil
}

// audit compares the whole tree with the disk, to detect changes without events.
func (x *Index) audit() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	if err := workers.Catch(func() error { return x.sync(x.root.path, nil, true) }); err != nil {
		x.close()
		x.failed = err
	}
}
