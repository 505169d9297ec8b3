package index

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
)

// Directories that are compared for each call are held open, so that they need not be opened each time. A held directory
// may be stale if another one now has its path. That requires a change of the entries of a directory above, which
// changes its stamp, or a mount, which Index.mounts detects. When the entries of a directory change, [Index.keepDir]
// checks whether the directories below are still the same.

// descriptors limits the number of directories that all indexes hold open.
type descriptors struct{ left atomic.Int64 }

// newDescriptors allows a quarter of the process's open file limit, because calls need descriptors too.
func newDescriptors() *descriptors {
	const most = 1 << 14 // each takes kernel memory
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

// probe opens a directory to look up its entries. The caller must not close it if held is true.
func (x *Index) probe(d *dir) (p walk.Probe, held bool, err error) {
	if d.held != nil {
		return *d.held, true, nil
	}
	p, err = walk.OpenProbe(x.handle, x.rel(d))
	return p, false, err
}

// keepOpen holds an opened directory open and reports whether it did. The directory must be the one that was listed.
//
// It excludes directories of a network file system, which may ask its server only when a directory is opened. It
// excludes directories on other mounts, because these could not be unmounted.
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

// release closes a held directory.
func (x *Index) release(d *dir) {
	if d.held != nil {
		d.held.Close()
		d.held = nil
		x.open.give()
	}
}

// held counts the held directories.
func (x *Index) held() (n int) {
	for d := range x.byStat {
		if d.held != nil {
			n++
		}
	}
	return n
}

// releaseAll closes all held directories. It iterates over byStat, which contains them even if an error removed them
// from the tree.
func (x *Index) releaseAll() {
	for d := range x.byStat {
		x.release(d)
	}
}
