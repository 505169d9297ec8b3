package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Freshness is the method by which an index detects changes.
type Freshness string

// The values of [Freshness].
const (
	ByEvents Freshness = "events" // use events where possible, and compare stamps elsewhere
	ByStat   Freshness = "stat"   // compare all stamps for each call
)

// Options are the options of a [Set].
type Options struct {
	// Memory is the memory limit of all indexes together in bytes. Files that exceed the limit are searched on disk.
	Memory    int64
	Freshness Freshness
	// Reports receives the host's reports of changes. Nil means that the host makes none.
	Reports *freshness.Reports
	// Beside is the heap memory in bytes that the process uses in addition to the indexes.
	Beside int64
	// Watches is the maximum number of watched directories of a tree. Zero means half of the number that the system
	// allows. Directories without a watch are compared for each call.
	Watches int
}

// Set holds the indexes of the searched trees. It is safe for concurrent use.
type Set struct {
	options Options
	budget  *content.Budget
	open    *descriptors
	stop    chan struct{}
	ending  sync.Once
	work    sync.WaitGroup
	entries atomic.Int64 // number of entries in all indexes built so far

	mu    sync.Mutex
	trees []*Tree // the most recently used tree is last
}

// maxTrees is the maximum number of trees in a set.
const maxTrees = 8

// NewSet returns an empty set.
func NewSet(o Options) *Set {
	return &Set{options: o, budget: content.NewBudget(o.Memory), open: newDescriptors(), stop: make(chan struct{})}
}

// Budget returns the memory budget of the indexes. Data that is derived from the indexed texts uses the same budget.
func (s *Set) Budget() *content.Budget { return s.budget }

// Close stops the background work of the set and frees its memory.
func (s *Set) Close() {
	s.ending.Do(func() { close(s.stop) })
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.trees {
		t.forget()
	}
	s.trees = nil
}

// State is the state of an index.
type State string

// The values of [State].
const (
	None     State = "none" // the index is not yet built or is outdated
	Building State = "building"
	Ready    State = "ready"
	Refused  State = "refused" // the tree cannot be indexed; the report contains the reason
)

// Tree is a searched directory with its index.
type Tree struct {
	set  *Set
	path string
	key  string
	// open is a function that opens the directory. The field "readRule" is a function that reads an ignore
	// file outside of the directory.
	open     func() (*os.File, error)
	readRule func(string) ([]byte, error)
	scans    atomic.Int64 // number of calls that currently search the disk
	found    atomic.Int64
	audited  atomic.Int64

	mu    sync.Mutex
	state State
	why   string
	index *Index
	retry time.Time
}

// Tree returns the tree at an absolute path. The key contains the roots that the caller is allowed to access. Callers
// with different roots get different trees. The functions "open" and "readRule" are called in the background.
func (s *Set) Tree(path, key string, open func() (*os.File, error), readRule func(string) ([]byte, error)) *Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.trees, func(t *Tree) bool { return t.path == path && t.key == key })
	if i >= 0 {
		t := s.trees[i]
		s.trees = append(slices.Delete(s.trees, i, i+1), t)
		return t
	}
	t := &Tree{set: s, path: path, key: key, open: open, readRule: readRule, state: None}
	if len(s.trees) == maxTrees {
		go s.trees[0].forget() // run in a goroutine, because forget waits for calls that still use the tree
		s.trees = slices.Delete(s.trees, 0, 1)
	}
	s.trees = append(s.trees, t)
	return t
}

func (t *Tree) forget() {
	t.mu.Lock()
	x := t.index
	t.index, t.state = nil, None
	t.mu.Unlock()
	if x != nil {
		x.mu.Lock()
		if !x.closed {
			x.close()
		}
		x.mu.Unlock()
	}
}

// auditEvery is the minimal time between two audits of a tree. Audits run only while calls arrive.
const auditEvery = 10 * time.Second

// Snapshot updates the index. It returns the files that a call with these options can find below a start. The key
// identifies the options. If the index does not exist or does not contain the start, Snapshot returns nil. In this
// case, the caller must search the disk and announce the search with [Tree.Scan].
func (t *Tree) Snapshot(s walk.Start, o walk.Options, key string) *Snapshot {
	t.mu.Lock()
	x := t.index
	t.mu.Unlock()
	if x == nil {
		return nil
	}
	snap, err := x.snapshot(s, o, key)
	if err != nil {
		t.mu.Lock()
		if t.index == x {
			t.index, t.state = nil, None
			t.faulty(err)
			go t.free(x)
		}
		t.mu.Unlock()
		return nil
	}
	now := time.Now().UnixNano()
	if last := t.audited.Load(); snap != nil && x.watcher != nil && now-last > int64(auditEvery) &&
		t.audited.CompareAndSwap(last, now) {
		t.set.inBackground(x.audit)
	}
	return snap
}

// free closes an outdated index after all calls that use the index have ended.
func (t *Tree) free(x *Index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.close()
	}
}

func (s *Set) inBackground(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stop:
		return
	default:
	}
	s.work.Go(do)
}

// Scan announces that a call searches the disk. The caller must call the function "end" after the search. Then the
// index is built. An earlier build would slow down the search.
func (t *Tree) Scan() (end func()) {
	t.scans.Add(1)
	return func() {
		if t.scans.Add(-1) > 0 {
			return
		}
		t.mu.Lock()
		begin := t.state == None && time.Now().After(t.retry)
		if begin {
			t.state = Building
		}
		t.mu.Unlock()
		if begin {
			t.set.inBackground(t.build)
		}
	}
}

const (
	// breath is the delay before an index is built. During the delay, the call can return its answer.
	breath = 10 * time.Millisecond
	// patience is the maximum total time for which the building of an index waits for calls that search the disk.
	patience = 2 * time.Second
	// retryAfter is the time after a failure in which an index is not built again.
	retryAfter = 30 * time.Second
)

// faulty marks the tree as permanently refused if err is a panic, because the same files would cause the same panic
// again. Searches of a refused tree read the disk. faulty reports whether it marked the tree. The caller must hold
// t.mu.
func (t *Tree) faulty(err error) bool {
	_, ok := errors.AsType[*workers.PanicError](err)
	if ok {
		t.state, t.why = Refused, err.Error()
		fmt.Fprintf(os.Stderr, "the index of %s failed; searches read the files instead: %v\n", t.path, err)
	}
	return ok
}

func (t *Tree) build() {
	time.Sleep(breath)
	left := atomic.Int64{}
	left.Store(int64(patience))
	pause := func() {
		const step = 2 * time.Millisecond
		for t.scans.Load() > 0 && left.Add(-int64(step)) > 0 {
			time.Sleep(step)
		}
	}
	pause()
	handle, err := t.open()
	var x *Index
	if err == nil {
		t.audited.Store(time.Now().UnixNano())
		x, err = build(handle, t.path, t.readRule, t.set, &t.found, pause)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.faulty(err):
	case errors.Is(err, errTooLarge):
		t.state, t.why = Refused, err.Error()
	case err == nil:
		t.index, t.state, t.why = x, Ready, ""
		t.set.limitHeap(x.entries)
	default:
		t.state, t.why, t.retry = None, err.Error(), time.Now().Add(retryAfter)
	}
}

// limitHeap sets a memory limit for the Go heap, because the process also needs memory for the indexes, which are
// not on the heap. The limit is far above the heap memory in use. If heap use came close to the limit, the process
// would spend its time collecting garbage.
func (s *Set) limitHeap(entries int) {
	const base, perEntry, percent = 96 << 20, 1 << 10, 200
	if entries > 1000 { // building a smaller index leaves little garbage
		debug.FreeOSMemory()
	}
	s.entries.Add(int64(entries))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(max(base+s.options.Beside+perEntry*s.entries.Load(), 2*int64(m.HeapAlloc))) // #nosec G115 -- bytes of memory
}

// State returns the state of the index and the number of files and directories found so far.
func (t *Tree) State() (State, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.found.Load()
}

// Audit compares all trees with the disk. It detects changes that no event reports. While calls arrive, the set also
// audits its trees automatically from time to time.
func (s *Set) Audit() {
	s.mu.Lock()
	trees := slices.Clone(s.trees)
	s.mu.Unlock()
	for _, t := range trees {
		t.mu.Lock()
		x := t.index
		t.mu.Unlock()
		if x != nil {
			x.audit()
		}
	}
}

// Report describes a set for an operator.
type Report struct {
	// Memory is the memory usage of all indexes in bytes. Limit is the maximum memory usage.
	Memory int64        `json:"memory"`
	Limit  int64        `json:"limit"`
	Trees  []TreeReport `json:"trees"`
}

// TreeReport describes one index.
type TreeReport struct {
	Path  string `json:"path"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
	// Entries is the number of indexed files and directories. Directories is the number of indexed directories.
	Entries     int `json:"entries"`
	Directories int `json:"directories"`
	// Watched is the number of directories with a watch. All other directories are compared for each call.
	Watched int `json:"watched"`
	// Held is the number of directories that are held open. These directories have no watch.
	Held    int           `json:"held"`
	Content content.Usage `json:"content"`
	// Freshness is the method that detects changes: "events", "stat", or "events and stat".
	Freshness string `json:"freshness"`
	// NotWatched is the error of the last failed attempt to add a watch.
	NotWatched string `json:"not_watched,omitempty"`
	// Events is the number of events received so far. Lost is the number of times that the kernel dropped events
	// because there were too many.
	Events int64 `json:"events"`
	Lost   int64 `json:"lost"`
}

// Report returns a report of all indexes.
func (s *Set) Report() Report {
	s.mu.Lock()
	trees := slices.Clone(s.trees)
	s.mu.Unlock()
	r := Report{Memory: s.budget.Used(), Limit: s.budget.Limit(), Trees: []TreeReport{}}
	for _, t := range trees {
		r.Trees = append(r.Trees, t.report())
	}
	return r
}

// JSON returns the report as a JSON object.
func (r Report) JSON() json.RawMessage {
	b, err := json.Marshal(r)
	if err != nil {
		panic("index: " + err.Error()) // cannot happen, because values of these types always have a JSON form
	}
	return b
}

func (t *Tree) report() TreeReport {
	t.mu.Lock()
	r := TreeReport{Path: t.path, State: t.state, Why: t.why, Entries: int(t.found.Load())}
	x := t.index
	t.mu.Unlock()
	if x == nil {
		return r
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return r
	}
	r.Entries, r.Directories, r.Watched = x.entries, x.dirs, x.dirs-len(x.byStat)
	r.Held = x.held()
	r.Content, r.Events, r.Lost = x.store.Usage(), x.events, x.lost
	switch {
	case len(x.byStat) == 0:
		r.Freshness = "events"
	case r.Watched == 0:
		r.Freshness = "stat"
	default:
		r.Freshness = "events and stat"
	}
	if x.refused != nil {
		r.NotWatched = x.refused.Error()
	}
	return r
}
