package index

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
)

// If the index compares a directory for each call, it holds the directory open to avoid opening it each time. An open
// directory is outdated if another directory now has its path. There are two causes. First, the entries of a directory
// above the open directory change, which also changes the stamp of that upper directory. Second, a file system is
// mounted, which Index.mounts detects. If the entries of a directory change, [Index.keepDir] checks whether its
// subdirectories are still the same.

// descriptors limits the number of directories that all indexes together hold open.
type descriptors struct{ left atomic.Int64 }

// newDescriptors returns a limit of a quarter of the files that the process can open. The rest is reserved for calls.
func newDescriptors() *descriptors {
	const most = 1 << 14 // limit the number, because each open directory takes kernel memory
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

// keepOpen tries to hold an opened directory open, and reports whether it succeeded. The directory must be the one
// that was listed.
//
// It does not hold directories of a network file system open, because such a file system may ask its server for changes
// only when a directory is opened. Nor does it hold directories of other mounted file systems open, because an open
// directory prevents unmounting.
func (x *Index) keepOpen(d *dir, p walk.Probe) bool {
	if _, compared := x.byStat[d]; !compared || x.mounts == nil || d.kind != freshness.Watched ||
		len(d.entries) > partSize {
		return false
	}
	if mount, ok := p.Mount(); !ok || mount != x.mount || !x.open.take() {
		return false
	}
	d.held = &p
	return true
}

// release closes a directory if the index holds the directory open.
func (x *Index) release(d *dir) {
	if d.held != nil {
		d.held.Close()
		d.held = nil
		x.open.give()
	}
}

// held returns the number of directories that the index holds open.
func (x *Index) held() (n int) {
	for d := range x.byStat {
		if d.held != nil {
			n++
		}
	}
	return n
}

// releaseAll closes all directories that the index holds open. It iterates over byStat. If an error removed a
// directory from the tree, byStat still contains that directory.
func (x *Index) releaseAll() {
	for d := range x.byStat {
		x.release(d)
	}
}
