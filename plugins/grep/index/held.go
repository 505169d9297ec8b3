package index

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
)

// The index holds directories open if it compares them for each call, to avoid opening them each time. Such a directory
// is outdated if another directory has its path now. That can happen in two cases. Either the entries of a directory
// above change, which changes the stamp of that directory. Or something is mounted, which Index.mounts detects. If the
// entries of a directory change, [Index.keepDir] checks whether the directories below are still the same.

// descriptors limits how many directories all indexes together hold open.
type descriptors struct{ left atomic.Int64 }

// newDescriptors returns a limit of a quarter of the process's open files. The rest is left for calls.
func newDescriptors() *descriptors {
	const most = 1 << 14 // a maximum is needed because each open directory takes kernel memory
	var d descriptors
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		d.left.Store(int64(min(limit.Cur, math.MaxInt64) / 4)) // #nosec G115 -- bounded
	}
	d.left.Store(min(d.left.Load(), most))
	return &d
}

func (d *descriptors) take() bool {
	if d.left.Add(-1) >= 0 {
		return true
	}
	d.left.Add(1)
	return false
}

func (d *descriptors) give() { d.left.Add(1) }

// probe opens a directory to look up its entries. If held is true, the caller must not close the directory.
func (x *Index) probe(d *dir) (p walk.Probe, held bool, err error) {
	if d.held != nil {
		return *d.held, true, nil
	}
	p, err = walk.OpenProbe(x.handle, x.rel(d))
	return p, false, err
}

// keepOpen holds an opened directory open if possible, and reports whether it does. The directory must be the one that
// was listed.
//
// It does not hold directories of a network file system, because such a file system may ask its server only when a
// directory is opened. It does not hold directories on other mounts, because then these mounts could not be unmounted.
func (x *Index) keepOpen(d *dir, p walk.Probe) bool {
	if _, compared := x.byStat[d]; !compared || x.mounts == nil || d.kind != freshness.Watched || len(d.entries) > partSize {
		return false
	}
	if mount, ok := p.Mount(); !ok || mount != x.mount || !x.open.take() {
		return false
	}
	d.held = &p
	return true
}

// release closes a directory if the index holds it open.
func (x *Index) release(d *dir) {
	if d.held != nil {
		d.held.Close()
		d.held = nil
		x.open.give()
	}
}

// held returns the number of directories that are held open.
func (x *Index) held() (n int) {
	for d := range x.byStat {
		if d.held != nil {
			n++
		}
	}
	return n
}

// releaseAll closes all directories that are held open. It iterates over byStat, because byStat still contains a
// directory that an error removed from the tree.
func (x *Index) releaseAll() {
	for d := range x.byStat {
		x.release(d)
	}
}
