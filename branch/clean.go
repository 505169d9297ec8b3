package branch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/journal"
)

// previewAge is the age at which a preview that nobody has applied is discarded.
const previewAge = 24 * time.Hour

// orphanAge is the age from which on a directory without a record is removed.
const orphanAge = 24 * time.Hour

// Clean removes the data of discarded branches, files that killed processes left, and previews that nobody applied. If
// age is not zero, it also removes branches that are older than age and whose changes are all applied. Clean never
// removes unapplied changes or a branch that a process uses.
func (s *Store) Clean(age time.Duration) error {
	errs := []error{s.empty()}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".new-") &&
			time.Since(info.ModTime()) > time.Hour {
			errs = append(errs, filetree.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	all, listed := s.List()
	for _, b := range all {
		unneeded := func() bool {
			return b.IsPreview() && time.Since(b.Created) > previewAge || age > 0 && b.finished(age)
		}
		if unneeded() { // check this before locking, because the lock blocks sessions; discardIf checks it again
			errs = append(errs, unlessUsed(s.discardIf(b, unneeded)))
		}
	}
	orphans, orphansErr := s.Orphans()
	for _, o := range orphans {
		if o.Empty && time.Since(o.Changed) > orphanAge {
			errs = append(errs, unlessUsed(s.dropOrphan(o.Dir)))
		}
		errs = append(errs, o.Problem)
	}
	errs = append(errs, s.empty(), err, listed, orphansErr)
	return errors.Join(errs...)
}

// empty removes the discarded branches.
func (s *Store) empty() (err error) {
	all, _ := os.ReadDir(s.Dir) // the caller reports the error
	for _, e := range all {
		if strings.HasPrefix(e.Name(), dustbinDir) {
			err = errors.Join(err, filetree.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	return err
}

// unlessUsed returns err. But if err means that a process uses the branch, unlessUsed returns nil.
func unlessUsed(err error) error {
	if used := (*InUseError)(nil); errors.As(err, &used) {
		return nil
	}
	return err
}

// finished reports whether a branch has no unapplied changes, and was not made, applied or used within the given time.
func (b *Branch) finished(age time.Duration) bool {
	at := b.Created
	journals, err := b.journals()
	for _, j := range journals {
		if j.State == journal.Applying || j.State == journal.Undoing {
			return false
		}
		if j.At.After(at) {
			at = j.At
		}
	}
	if err != nil || time.Since(at) < age {
		return false
	}
	checkpoints, err := b.Checkpoints()
	if err != nil || slices.ContainsFunc(checkpoints,
		func(c Checkpoint) bool { return !c.Automatic() && c.Files > 0 && c.At.After(at) }) {
		return false // a person or an agent requested this checkpoint, and its content was not applied since
	}
	if info, err := os.Stat(filepath.Join(b.dir, recordFile)); err != nil || time.Since(info.ModTime()) < age {
		return false // a session has used the branch since
	}
	changes, err := b.Changes()
	return err == nil && len(changes) == 0
}

// Orphan is a directory of the store that is not a complete branch.
type Orphan struct {
	Dir     string
	Changed time.Time
	// Empty means that the directory contains nothing that a session or a person made.
	Empty bool
	// Problem is the reason why the record of the directory cannot be read. Nil means that the directory has no record.
	Problem error
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
		_, problem := read(dir)
		if problem == nil {
			continue
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue // the branch was discarded in the meantime
		}
		o := Orphan{Dir: dir, Changed: info.ModTime()}
		if errors.Is(problem, fs.ErrNotExist) {
			o.Empty = abandoned(dir)
		} else {
			o.Problem = problem
		}
		out = append(out, o)
	}
	return out, err
}

// abandoned reports whether a directory without a record contains only the files of a new branch. If something cannot
// be read, abandoned returns false.
func abandoned(dir string) bool {
	empty := true
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(dir, path); {
		case rel == workDir:
			return fs.SkipDir // this directory belongs to the kernel
		case rel == lockFile, rel == probeFile, rel == recordFile:
			return nil
		case err == nil && d.IsDir():
			return nil
		}
		empty = false
		return fs.SkipAll
	})
	return err == nil && empty
}

// dropOrphan removes a directory without a record, unless the directory has become a branch in the meantime.
func (s *Store) dropOrphan(dir string) error {
	held, err := lockDirectory(dir, filepath.Base(dir))
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	if err == nil {
		defer held.Close() //nolint:errcheck // only a lock
	}
	if _, err := read(dir); !errors.Is(err, fs.ErrNotExist) || !abandoned(dir) {
		return nil
	}
	return s.drop(&Branch{dir: dir, Name: filepath.Base(dir)})
}
