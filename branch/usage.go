package branch

import (
	"toolhost.dev/branch/internal/filetree"
)

// Usage returns the size of the layer on disk in bytes, and the number of files and directories in it.
func (b *Branch) Usage() (size int64, files int) {
	return b.measure(func(string, bool) {})
}

// measure returns the same as Usage, and calls the function "visit" for each path of the layer.
func (b *Branch) measure(visit func(rel string, dir bool)) (size int64, files int) {
	if b.Copy != nil {
		return b.work.Measure(visit)
	}
	return filetree.Measure(b.Layer(), visit)
}

// Beyond is the number of files that Usage returns for a layer whose directories are nested too deeply to be counted.
const Beyond = filetree.Beyond

type usage struct {
	size  int64
	files int
}

// Usage is like [Branch.Usage]. For merges, it also records the original states of the changed files.
func (m *Mount) Usage() (size int64, files int) {
	visit, end := m.ancestry.Begin(m.Branch.layer())
	size, files = m.Branch.measure(visit)
	end()
	m.usage.Store(&usage{size, files})
	return size, files
}

// LastUsage returns the last result of Usage. Without such a result, it calls Usage.
func (m *Mount) LastUsage() (size int64, files int) {
	if u := m.usage.Load(); u != nil {
		return u.size, u.files
	}
	return m.Usage()
}

// Bytes returns the size of the layer on disk.
func (b *Branch) Bytes() int64 {
	size, _ := b.Usage()
	return size
}
