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
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Freshness is the way an index detects changes.
type Freshness string

// The ways.
const (
	ByEvents Freshness = "events" // by events where possible, else by comparing
	ByStat   Freshness = "stat"   // by comparing everything for each call
)

// Options of a [Set].
type Options struct {
	// Memory is the memory limit of all indexes together, in bytes. Files that do not fit are searched on disk.
	Memory    int64
	Freshness Freshness
	// Beside is the heap memory that the process uses besides the indexes, in bytes.
	Beside int64
	// Watches is the maximal number of watched directories of a tree; 0 means half of what the system allows. Other
	// directories are compared.
	Watches int
}

// Set holds the indexes of the trees that calls search. It is safe for concurrent use.
type Set struct {
	options Options
	budget  *content.Budget
	open    *descriptors
	stop    chan struct{}
	ending  sync.Once
	work    sync.WaitGroup
	entries atomic.Int64 // of all indexes built so far

	mu    sync.Mutex
	trees []*Tree // the most recently used tree is last
}

// maxTrees is the maximal number of trees in a set.
const maxTrees = 8

// NewSet returns an empty set.
func NewSet(o Options) *Set {
	return &Set{options: o, budget: content.NewBudget(o.Memory), open: newDescriptors(), stop: make(chan struct{})}
}

// Budget returns the memory budget that the indexes share with data derived from their texts.
func (s *Set) Budget() *content.Budget { return s.budget }

// Close stops background work and frees the memory.
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

// The states.
const (
	None     State = "none" // not built yet, or out of date
	Building State = "building"
	Ready    State = "ready"
	Refused  State = "refused" // the tree cannot be indexed; the report contains the reason
)

// Tree is a directory that calls search, with its index.
type Tree struct {
	set  *Set
	path string
	key  string
	// open opens the directory. readRule reads an ignore file outside of it.
	open     func() (*os.File, error)
	readRule func(string) ([]byte, error)
	scans    atomic.Int64 // number of calls that search the disk now
	found    atomic.Int64
	audited  atomic.Int64

	mu    sync.Mutex
	state State
	why   string
	index *Index
	retry time.Time
}

// Tree returns the tree at an absolute path. Trees with different keys are different, because the key contains the roots
// that a caller may access. open and readRule are called in the background.
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
		go s.trees[0].forget() // waits for calls that use the tree
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

// auditEvery is the interval of audits while calls arrive.
const auditEvery = 10 * time.Second

// Snapshot updates the index and returns what a call with these options sees below a start in the tree. key identifies
// the options. It returns nil if there is no index or the start is not in it. Then the caller searches the disk between
// [Tree.Scan] and its end.
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
	if last := t.audited.Load(); snap != nil && x.watcher != nil && now-last > int64(auditEvery) && t.audited.CompareAndSwap(last, now) {
		t.set.inBackground(x.audit)
	}
	return snap
}

// free closes an outdated index after its last use.
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

// Scan announces that a call searches the disk. The caller must call end after it. The index is built after that, so
// that the two do not slow each other down.
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
	// breath is the time for a call to return its answer before building the index starts.
	breath = 10 * time.Millisecond
	// patience is the maximal time that building an index waits for calls that search the disk.
	patience = 2 * time.Second
	// retryAfter is the time to wait after a failure before the next try.
	retryAfter = 30 * time.Second
)

// faulty gives up the index permanently if err is a panic, because the same files would cause it again. Calls then
// search the disk. The caller must hold t.mu.
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

// limitHeap limits garbage on the heap, because the indexes use memory outside of it. The limit is well above the memory
// in use. Close to it the process would only collect garbage.
func (s *Set) limitHeap(entries int) {
	const base, perEntry, percent = 96 << 20, 1 << 10, 200
	if entries > 1000 { // smaller indexes leave little to free
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

// Audit compares all trees with the disk, including changes that no event reports. The set does that from time to time
// while calls arrive.
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
	// Memory is the memory of the indexes, and Limit their limit, in bytes.
	Memory int64        `json:"memory"`
	Limit  int64        `json:"limit"`
	Trees  []TreeReport `json:"trees"`
}

// TreeReport describes one index.
type TreeReport struct {
	Path  string `json:"path"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
	// Entries is the number of indexed files and directories, and Directories the number of directories alone.
	Entries     int `json:"entries"`
	Directories int `json:"directories"`
	// Watched is the number of directories with a watch. The others are compared for each call.
	Watched int `json:"watched"`
	// Held is the number of directories without a watch that are held open.
	Held    int           `json:"held"`
	Content content.Usage `json:"content"`
	// Freshness is "events", "stat", or "events and stat".
	Freshness string `json:"freshness"`
	// NotWatched is the last error of adding a watch.
	NotWatched string `json:"not_watched,omitempty"`
	// Events is the number of events so far. Lost is how often events were dropped because there were too many.
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
		panic("index: " + err.Error()) // all values of its types have a JSON form
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
