package index

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
)

// A directory that is compared for each call is held open, so that it need not be opened each
// time. What is held is the directory that has the path now as long as no directory above it
// has got other entries, which their stamps tell, and nothing was mounted there, of which
// Index.mounts hears. When a directory has other entries, [Index.keepDir] looks whether those
// beneath it are still the same ones.

// descriptors bounds how many directories all indexes hold open.
type descriptors struct{ left atomic.Int64 }

// newDescriptors allows a quarter of the files that the process may have open: calls need some.
func newDescriptors() *descriptors {
	const most = 1 << 14 // each takes the kernel some memory
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

// probe opens a directory to look up what is in it. One that is held must not be closed.
func (x *Index) probe(d *dir) (p walk.Probe, held bool, err error) {
	if d.held != nil {
		return *d.held, true, nil
	}
	p, err = walk.OpenProbe(x.handle, x.rel(d))
	return p, false, err
}

// keepOpen keeps a directory open that was opened by its path and is the one that was listed. It
// reports whether it did.
//
// A network file system may ask its server only when a directory is opened. What is mounted
// beneath the root could not be unmounted.
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

// release closes a directory that is held.
func (x *Index) release(d *dir) {
	if d.held != nil {
		d.held.Close()
		d.held = nil
		x.open.give()
	}
}

// held counts the directories that are held.
func (x *Index) held() (n int) {
	for d := range x.byStat {
		if d.held != nil {
			n++
		}
	}
	return n
}

// releaseAll closes all that are held: they are among those that are compared, also when an error
// left them without a place in the tree.
func (x *Index) releaseAll() {
	for d := range x.byStat {
		x.release(d)
	}
}
