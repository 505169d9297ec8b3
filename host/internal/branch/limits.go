package branch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage returns the size of the layer on disk in bytes, and the number of files and directories in it.
func (b *Branch) Usage() (size int64, files int) {
	return b.measure(func(string, fs.DirEntry) {})
}

// measure is Usage. It calls a function for each path of the layer.
func (b *Branch) measure(visit func(rel string, d fs.DirEntry)) (size int64, files int) {
	m := &measurer{visit: visit}
	var st unix.Stat_t
	if unix.Lstat(b.Layer(), &st) == nil && unreadable(&st) {
		m.enter(b.dir, upperDir, "", 0)
	} else {
		m.walk(b.Layer(), "", 0)
	}
	return m.size, m.files
}

type usage struct {
	size  int64
	files int
}

// Usage is like [Branch.Usage]. It also records what the changed files were before, for merges.
func (m *Mount) Usage() (size int64, files int) {
	visit, end := m.ancestry.begin(m.Branch)
	size, files = m.Branch.measure(visit)
	end()
	m.usage.Store(&usage{size, files})
	return size, files
}

// LastUsage returns the last result of Usage. It measures if nobody did.
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

// orphanAge is the time after which a directory without a record counts as left behind.
const orphanAge = 24 * time.Hour

// Clean removes the data of discarded branches, what killed processes left, previews that nobody applied, and branches
// whose changes are all applied and that are older than age. It never removes changes that are not applied, and no branch
// that a process uses. Zero means that branches are kept.
func (s *Store) Clean(age time.Duration) error {
	errs := []error{removeAll(filepath.Join(s.Dir, dustbinDir))}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".new-") && time.Since(info.ModTime()) > time.Hour {
			errs = append(errs, removeAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	all, listed := s.List()
	for _, b := range all {
		if b.IsPreview() && time.Since(b.Created) > previewAge || age > 0 && b.finished(age) {
			errs = append(errs, unlessUsed(s.Discard(b)))
		}
	}
	orphans, orphansErr := s.Orphans()
	for _, o := range orphans {
		if o.Empty && time.Since(o.Changed) > orphanAge {
			errs = append(errs, removeAll(o.Dir))
		}
	}
	errs = append(errs, removeAll(filepath.Join(s.Dir, dustbinDir)), err, listed, orphansErr)
	return errors.Join(errs...)
}

// unlessUsed returns an error, but nil if a process uses the branch.
func unlessUsed(err error) error {
	if used := (*InUseError)(nil); errors.As(err, &used) {
		return nil
	}
	return err
}

// finished reports whether a branch has no change that is not applied, and was last applied or made before age.
func (b *Branch) finished(age time.Duration) bool {
	at := b.Created
	journals, err := b.journals()
	for _, j := range journals {
		if j.State == applying || j.State == undoing {
			return false
		}
		if j.At.After(at) {
			at = j.At
		}
	}
	if err != nil || time.Since(at) < age {
		return false
	}
	if info, err := os.Stat(filepath.Join(b.dir, recordFile)); err != nil || time.Since(info.ModTime()) < age {
		return false // a session used it since
	}
	changes, err := b.Changes()
	return err == nil && len(changes) == 0
}

// Orphan is a directory of the store that is not a complete branch.
type Orphan struct {
	Dir     string
	Changed time.Time
	// Empty means that no file is in its layer.
	Empty bool
}

// Orphans lists the directories that are not complete branches.
func (s *Store) Orphans() (out []Orphan, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		dir := filepath.Join(s.Dir, e.Name())
		info, infoErr := e.Info()
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() || infoErr != nil {
			continue
		}
		if _, err := read(dir); err == nil {
			continue
		}
		o := Orphan{Dir: dir, Changed: info.ModTime(), Empty: true}
		_ = filepath.WalkDir(filepath.Join(dir, upperDir), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
				o.Empty = false // also what cannot be read
				return fs.SkipAll
			}
			return nil
		})
		out = append(out, o)
	}
	return out, err
}
