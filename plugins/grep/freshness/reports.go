package freshness

import (
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"
)

// Reports distributes the host's reports of changed files to the indexes. The zero value covers no directory. It is
// safe for concurrent use.
type Reports struct {
	mu    sync.Mutex
	roots []tool.Root
	queue []*Reported
}

// Cover sets the directories in which the host reports the changes that the kernel does not report.
func (r *Reports) Cover(roots []tool.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roots = roots
}

// Add passes a report on to all indexes.
func (r *Reports) Add(i tool.Invalidation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queue {
		q.add(i)
	}
}

// Subscribe returns a queue for the index of a directory. The queue receives all later reports. If the host reports no
// changes in the directory, the result is nil.
func (r *Reports) Subscribe(dir string) *Reported {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.roots, func(o tool.Root) bool { return o.Contains(dir) }) {
		return nil
	}
	q := &Reported{from: r, paths: make(map[string]struct{})}
	r.queue = append(r.queue, q)
	return q
}

// maxReported is the maximum number of paths in a queue. If more paths are reported, all files count as changed.
const maxReported = 1 << 16

// Reported is the queue of the reports for one index.
type Reported struct {
	from *Reports

	mu    sync.Mutex
	paths map[string]struct{}
	all   bool
}

func (q *Reported) add(i tool.Invalidation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range i.Paths {
		q.paths[p] = struct{}{}
	}
	if i.All || len(q.paths) > maxReported {
		q.all = true
		clear(q.paths)
	}
}

// Drain calls a function for each reported path since the last call of Drain. If the result "all" is true, every file
// can have changed.
func (q *Reported) Drain(handle func(path string)) (all bool) {
	q.mu.Lock()
	paths, all := q.paths, q.all
	q.paths, q.all = make(map[string]struct{}), false
	q.mu.Unlock()
	for p := range paths {
		handle(p)
	}
	return all
}

// Close ends the subscription.
func (q *Reported) Close() {
	q.from.mu.Lock()
	defer q.from.mu.Unlock()
	q.from.queue = slices.DeleteFunc(q.from.queue, func(o *Reported) bool { return o == q })
}
