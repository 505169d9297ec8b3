package index

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// maxFile is the maximum size of an indexed file in bytes. Larger files are read at each search.
const maxFile = 64 << 20

// seed is the random seed of all sums. Other processes cannot compute the same sums.
var seed = maphash.MakeSeed()

// Sum returns a hash of a text. Hashes of different processes are not comparable.
func Sum(text []byte) uint64 { return maphash.Bytes(seed, text) }

// chunk is the number of files that a worker reads before it takes the next files.
const chunk = 64

// enqueue adds a file to the pending files, which the next load reads.
func (x *Index) enqueue(f *file) {
	if !f.queued {
		f.queued = true
		x.pending = append(x.pending, f)
	}
}

// load reads the pending files until no file is pending. Further files can become pending while load runs.
func (x *Index) load() {
	for len(x.pending) > 0 && !x.stopped() {
		x.loadPending()
		x.shareInodes()
	}
	x.compact()
}

// loadPending reads the currently pending files concurrently.
func (x *Index) loadPending() {
	pending := x.pending
	x.pending = nil
	for _, f := range pending {
		f.queued = false
	}
	slices.SortStableFunc(pending, func(a, b *file) int { return strings.Compare(a.in.path, b.in.path) })
	var next atomic.Int64
	done := make([][]loaded, x.workers)
	workers.Run(min(x.workers, (len(pending)+chunk-1)/chunk), func(w int) {
		l := &loader{x: x, to: x.store.Appender(w)}
		defer l.close()
		for {
			to := int(next.Add(chunk))
			if to-chunk >= len(pending) || x.stopped() {
				return
			}
			for _, f := range pending[to-chunk : min(to, len(pending))] {
				done[w] = append(done[w], l.load(f))
			}
			x.yield()
		}
	})
	for _, list := range done {
		for i := range list {
			x.adopt(&list[i])
		}
	}
}

// loaded holds the result of reading one file.
type loaded struct {
	f     *file
	kind  fileKind
	text  *content.Text
	sum   uint64
	stamp freshness.Stamp
	read  int64
	same  bool // true if the text of the file is unchanged
}

// loader reads files one after the other.
type loader struct {
	x    *Index
	to   *content.Appender
	dir  *dir
	open *os.File
	buf  []byte
}

func (l *loader) close() {
	if l.open != nil {
		_ = l.open.Close()
	}
}

// openDir opens a directory. If the previous file was in the same directory, it returns the directory that is still
// open.
func (l *loader) openDir(d *dir) (*os.File, error) {
	if l.dir == d && l.open != nil {
		return l.open, nil
	}
	l.close()
	var err error
	l.dir = d
	l.open, err = walk.OpenDir(l.x.handle, l.x.rel(d))
	return l.open, err
}

func (l *loader) load(f *file) loaded {
	out := loaded{f: f, kind: unread}
	if f.dropped {
		return out
	}
	dir, err := l.openDir(f.in)
	if err != nil {
		l.open = nil
		return out
	}
	read := freshness.Now()
	src, err := walk.OpenFile(dir, f.in.path, f.name())
	if err != nil {
		return out
	}
	defer func() { _ = src.Close() }()
	out.stamp, out.read = src.Stamp(), read
	raw, err := l.all(src)
	if err != nil {
		return out
	}
	decoded, nul, ok := search.Decoded(raw)
	if ok {
		out.sum = Sum(decoded)
	}
	switch {
	case ok && f.text != nil && l.x.made && l.equal(f.text, decoded):
		out.kind, out.text, out.same = textFile, f.text, true
	case ok:
		if out.text = l.to.Add(f.id, decoded); out.text != nil {
			out.kind = textFile
		}
	case search.SureBinary(raw, nul):
		out.kind = binaryFile
	}
	return out
}

func (l *loader) equal(t *content.Text, now []byte) bool {
	old, ok := t.Bytes()
	return ok && bytes.Equal(old, now)
}

var errLarge = errors.New("the file is too large for the index")

// all reads a file into the loader's buffer.
func (l *loader) all(src *walk.File) ([]byte, error) {
	if src.Size() > maxFile {
		return nil, errLarge
	}
	const most = 1 << 20 // maximum size of a buffer that is reused
	buf := l.buf
	if need := int(src.Size()) + 1; cap(buf) < need {
		if buf = make([]byte, max(need, 64<<10)); len(buf) <= most {
			l.buf = buf
		}
	}
	buf = buf[:cap(buf)]
	n := 0
	for {
		m, err := src.Read(buf[n:])
		if n += m; errors.Is(err, io.EOF) {
			return buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
		if n > maxFile {
			return nil, errLarge
		}
		if n == len(buf) { // the file has grown since it was opened
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// adopt stores the result of reading a file in the index.
func (x *Index) adopt(l *loaded) {
	f := l.f
	if f.dropped {
		if l.text != nil && !l.same {
			x.store.Remove(l.text)
		}
		return
	}
	x.changed = x.changed || f.kind != l.kind
	if f.text != nil && !l.same {
		x.store.Remove(f.text)
	}
	if f.sum != l.sum || l.text == nil {
		f.kept.Store(nil)
	}
	f.kind, f.text, f.sum, f.stamp, f.read = l.kind, l.text, l.sum, l.stamp, l.read
	// If the file has another hard link or is a mount point, it can change without an event for the directory.
	if f.stamp.Links > 1 || f.stamp.Dev != f.in.stamp.Dev && f.stamp.Regular() {
		if _, known := x.linked[f]; !known {
			x.linked[f] = struct{}{}
			x.newLinks = append(x.newLinks, f)
		}
	} else {
		delete(x.linked, f)
	}
	if f.writing {
		x.writing[f] = struct{}{}
	} else {
		delete(x.writing, f)
	}
}

// shareInodes handles files with a new hard link. It finds the other names of such a file in the tree. Changes
// through the new link cause no event for these names, so it queues the names whose text can be outdated.
func (x *Index) shareInodes() {
	if len(x.newLinks) == 0 {
		return
	}
	type inode struct{ dev, ino uint64 }
	linked := make(map[inode]freshness.Stamp)
	for _, f := range x.newLinks {
		linked[inode{f.stamp.Dev, f.stamp.Ino}] = f.stamp
	}
	x.newLinks = nil
	for _, f := range x.files {
		if f == nil {
			continue
		}
		if now, ok := linked[inode{f.stamp.Dev, f.stamp.Ino}]; ok {
			x.linked[f] = struct{}{}
			if f.stamp != now {
				x.enqueue(f)
			}
		}
	}
}

// compact frees the memory of replaced texts.
func (x *Index) compact() {
	x.store.Compact(func(old, now *content.Text) {
		f := x.files[old.Owner]
		if f.text = now; now == nil {
			f.kind = unread
			x.changed = true
		}
	})
}
