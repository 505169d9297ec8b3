// Package index implements the index of a tree: its files, what ignore rules decide about them,
// and their text. It is made in the background and updated before each use.
//
// The index is a table of the directories that a call without options visits, and of their files
// with their text. It does not contain the rest: ignored and hidden directories, very large files,
// and what cannot be read. Calls that want these look on the disk. So nothing depends on the index
// being complete, only on its content being true. [Index.sync] makes it true, in this order:
//
//   - It applies the events of the directories. The kernel queues an event before the system call
//     that causes it returns.
//   - It compares everything if events were lost. It compares directories without events: on a
//     network file system, or when the system allows no more watches.
//   - It compares files that have hard links elsewhere, and ignore files outside of the indexed
//     directories.
//   - It reads files again that a program has written and not closed, because stores through a
//     mapping cause no event.
//
// Two kinds of changes are detected late. Stores through a mapping of a file that was not written
// otherwise are detected when it is unmapped. Writes through a new hard link outside of the tree,
// to a file that had only one name, are detected by the next audit.
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

// Index is the index of a tree. Callers of its methods must hold mu.
type Index struct {
	mu      sync.RWMutex
	closed  bool
	handle  *os.File // the root directory
	root    *dir
	store   *content.Store
	watcher *freshness.Watcher // nil if changes are found only by comparing
	mounts  *freshness.Mounts  // nil if mounts cannot be watched
	open    *descriptors       // limit for held directories
	mount   uint64             // ID of the root's mount; zero if unknown
	workers int
	made    bool // the index is complete, so texts may be read
	// readRule reads an ignore file outside of the indexed directories.
	readRule func(path string) ([]byte, error)

	files   []*file // indexed by id
	free    []uint32
	pending []*file
	watches map[int32][]*dir
	byStat  map[*dir]struct{} // directories without a watch
	// mostWatches is the maximal number of watched directories. refused is the last error of adding a watch.
	mostWatches int
	refused     error
	linked      map[*file]struct{}
	writing     map[*file]struct{}
	outside     []looked
	above       *ignore.Dir // the rules of the directories above the root
	// aboveDir is a placeholder for these directories in outside.
	aboveDir dir
	newLinks []*file
	dirty    map[*dir]map[string]change
	gone     bool // the root was moved or removed

	entries, dirs int
	events, lost  int64
	generation    uint64
	changed       bool // changed since the generation began

	// failed is the error that closed the index, if known.
	failed error

	viewsMu sync.Mutex
	views   []*view

	progress *atomic.Int64 // number of entries found so far
	stop     <-chan struct{}
	pause    func() // waits while calls search the disk
}

// build builds the index of a directory. It takes ownership of handle.
func build(handle *os.File, path string, readRule func(string) ([]byte, error), s *Set, progress *atomic.Int64, pause func()) (*Index, error) {
	x := &Index{
		handle: handle, store: content.NewStore(s.budget, workers.Number()), workers: workers.Number(), readRule: readRule,
		watches: make(map[int32][]*dir), byStat: make(map[*dir]struct{}), linked: make(map[*file]struct{}), writing: make(map[*file]struct{}),
		pause: pause, open: s.open, dirty: make(map[*dir]map[string]change), stop: s.stop, progress: progress,
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
			x.mostWatches = freshness.MaxWatches() / 2 // leave watches for other programs
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

// yield gives precedence to calls that search the disk while the index is built.
func (x *Index) yield() {
	if x.pause != nil {
		x.pause()
	}
}

// whyClosed returns the error for using a closed index.
func (x *Index) whyClosed() error {
	if x.failed != nil {
		return x.failed
	}
	return errStale
}

// close releases the resources of the index. It works in any state.
func (x *Index) close() {
	x.closed = true
	for _, free := range []func(){
		func() { x.store.Close() },
		x.releaseAll,
		func() {
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

// audit compares everything, to detect changes without events.
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
