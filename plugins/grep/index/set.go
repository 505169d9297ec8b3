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

// Freshness is how an index finds out what changed.
type Freshness string

// The ways.
const (
	ByEvents Freshness = "events" // by events where there are any, else by comparing
	ByStat   Freshness = "stat"   // by comparing everything, for each call
)

// Options of a [Set].
type Options struct {
	// Memory is what all indexes may take together, in bytes. What does not fit in is
	// searched on the disk.
	Memory    int64
	Freshness Freshness
	// Beside is what the process keeps on its heap beside the indexes, in bytes.
	Beside int64
	// Watches is how many directories of a tree are watched at most; 0: half of what the
	// system allows. The others are compared.
	Watches int
}

// Set is the indexes of the trees that calls look in. It is safe for concurrent use.
type Set struct {
	options Options
	budget  *content.Budget
	open    *descriptors
	stop    chan struct{}
	ending  sync.Once
	work    sync.WaitGroup
	entries atomic.Int64 // of all indexes made so far

	mu    sync.Mutex
	trees []*Tree // the last used one is the last
}

// maxTrees is the number of trees that are known at a time.
const maxTrees = 8

// NewSet makes a set; there is nothing in it yet.
func NewSet(o Options) *Set {
	return &Set{options: o, budget: content.NewBudget(o.Memory), open: newDescriptors(), stop: make(chan struct{})}
}

// Budget is the memory that the indexes share with what is made of their texts.
func (s *Set) Budget() *content.Budget { return s.budget }

// Close ends what is done in the background and frees the memory.
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

// State is how far an index is.
type State string

// The states.
const (
	None     State = "none" // nobody has looked there yet, or it is out of date
	Building State = "building"
	Ready    State = "ready"
	Refused  State = "refused" // the tree cannot be indexed; see why
)

// Tree is a directory that calls look in, with its index.
type Tree struct {
	set  *Set
	path string
	key  string
	// Open opens the directory; ReadRule reads an ignore file outside of it.
	open     func() (*os.File, error)
	readRule func(string) ([]byte, error)
	scans    atomic.Int64 // calls that search the disk now
	found    atomic.Int64
	audited  atomic.Int64

	mu    sync.Mutex
	state State
	why   string
	index *Index
	retry time.Time
}

// Tree returns the tree at an absolute path. Trees with different keys are different ones:
// the key says who may look where. open and readRule are used in the background.
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
		go s.trees[0].forget() // waits for calls that use it
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

// auditEvery is how often everything is compared while calls come.
const auditEvery = 10 * time.Second

// Snapshot brings the index up to date and gives what a call with these options sees
// beneath a start, which lies in the tree. key tells options apart. It is nil if there is no
// index (yet), or the start is not in it; then search the disk, between [Tree.Scan] and
// its end.
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

// free closes an index that is out of date, when nobody uses it any more.
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

// Scan says that a call searches the disk; call what it gives at its end. The index is
// made after that, so that the two do not slow each other down.
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
	// breath is what a call's answer takes to leave before the index is begun.
	breath = 10 * time.Millisecond
	// patience is how long the making of an index waits for calls that search the disk.
	patience = 2 * time.Second
	// retryAfter is when to try again what has failed.
	retryAfter = 30 * time.Second
)

// faulty gives up the index permanently if an error is a fault of ours: it would come again with the same files.
// Calls search the disk then. The caller holds t.mu.
func (t *Tree) faulty(err error) bool {
	_, ok := errors.AsType[*workers.PanicError](err)
	if ok {
		t.state, t.why = Refused, err.Error()
		fmt.Fprintf(os.Stderr, "the index of %s failed and is not made again: %v\n", t.path, err)
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

// limitHeap keeps garbage from adding up beside what is kept outside of the heap. The limit
// is well above what is in use: close to it nothing but collecting would be done.
func (s *Set) limitHeap(entries int) {
	const base, perEntry, percent = 96 << 20, 1 << 10, 200
	if entries > 1000 { // else there is little to give back
		debug.FreeOSMemory()
	}
	s.entries.Add(int64(entries))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(max(base+s.options.Beside+perEntry*s.entries.Load(), 2*int64(m.HeapAlloc))) // #nosec G115 -- bytes of memory
}

// State says how far the index is, and how many files and directories were found so far.
func (t *Tree) State() (State, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.found.Load()
}

// Audit compares all trees with what is on the disk, also where nothing tells of a change.
// It is done from time to time while calls come.
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

// Report is the state of a set, for an operator.
type Report struct {
	// Memory is that of the indexes, and Limit what they may take, in bytes.
	Memory int64        `json:"memory"`
	Limit  int64        `json:"limit"`
	Trees  []TreeReport `json:"trees"`
}

// TreeReport is the state of one index.
type TreeReport struct {
	Path  string `json:"path"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
	// Entries are the files and directories known, Directories only these.
	Entries     int `json:"entries"`
	Directories int `json:"directories"`
	// Watched directories tell of changes; the others are compared for each call.
	Watched int `json:"watched"`
	// Held are those of the others that are held open.
	Held    int           `json:"held"`
	Content content.Usage `json:"content"`
	// Freshness: "events", "stat", or "events and stat".
	Freshness string `json:"freshness"`
	// NotWatched is why the last directory could not be watched.
	NotWatched string `json:"not_watched,omitempty"`
	// Events so far; Lost is how often there were too many.
	Events int64 `json:"events"`
	Lost   int64 `json:"lost"`
}

// Report says how the indexes are.
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

// JSON returns the report as an object.
func (r Report) JSON() json.RawMessage {
	b, err := json.Marshal(r)
	if err != nil {
		panic("index: " + err.Error()) // its types have no values that JSON lacks
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
