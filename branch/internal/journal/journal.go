// Package journal makes the changes of a layer in its base by renaming and exchanging files. It makes either all
// changes or none.
//
// A [Journal] lists the steps. [Log.Begin] writes the journal to the disk before the first change. An [Exchange] makes
// the steps or undoes them. Each step can be repeated. Therefore any process can complete the work of a killed process.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
)

// These are the names of files in the directory of a journal.
const (
	journalFile = "journal.json"
	// progressFile contains the [Progress] of the journal.
	progressFile = "progress.json"
	// reserveFile reserves the disk space that the end of an apply needs. It is removed at the end of the apply.
	reserveFile = "reserve"
)

// Log is the directory with the journals of a branch.
type Log struct {
	Dir string
	// Base and Layer are the directories between which an apply moves files.
	Base, Layer string
}

// These are the states of a journal. The next process that uses the branch completes a journal in one of the first two
// states.
const (
	Applying = "applying"
	Undoing  = "undoing" // the apply failed and is being undone
	Applied  = "applied"
	Reverted = "reverted"
)

// Journal describes an apply. The journal is on disk before the first change of the base. Its directory also contains
// the displaced files of the base. The name of each file is the number of its step.
type Journal struct {
	Progress
	At time.Time `json:"at"`
	// Checked is the time at which the search for conflicts began, on the clock of the base's file system, in
	// nanoseconds.
	Checked int64  `json:"checked"`
	Steps   []Step `json:"steps"`
	// Whole is the inode of the layer if all changes are applied. See [Exchange.Forward].
	Whole uint64 `json:"whole,omitempty"`
	// Since, Renewed and SetBack are the values of these fields of the branch before the apply.
	Since   int64            `json:"since,omitempty"`
	Renewed map[string]int64 `json:"renewed,omitempty"`
	SetBack bool             `json:"set_back,omitempty"`
	// Locks lists the locks of git that the apply takes in the base.
	Locks []gitLock `json:"locks,omitempty"`

	dir string
}

// Progress is the part of a journal that changes. It is stored in a separate file, which takes precedence over the file
// of the journal.
type Progress struct {
	State string `json:"state"`
	// Done is the time of the base's file system after the last change.
	Done int64 `json:"done,omitempty"`
}

// Step is one change of the base.
type Step struct {
	change.Change
	// Drop means that the layer's version is removed, because the workspace's version is kept.
	Drop bool `json:"drop,omitempty"`
	// New is the inode of the layer's version, and Old identifies the base's version.
	New uint64       `json:"new,omitempty"`
	Old change.Stamp `json:"old,omitzero"`
	// Contested means that the base also changed the path after the branch began. After a revert, the path still has a
	// conflict.
	Contested bool `json:"contested,omitempty"`
	// Index is the checksum of the entries if the path is an index of git.
	Index string `json:"index,omitempty"`
	// Opaque means that the layer's version is a directory that hid a directory of the base.
	Opaque bool `json:"opaque,omitempty"`
	// Gone means that a guard removed the applied version from the base.
	Gone bool `json:"gone,omitempty"`
	// Made means that the base gets a new content from the directory of the journal. New is the inode of this content.
	// Mine is the inode of the layer's version, which moves to the directory of the journal, or 0.
	Made bool   `json:"made,omitempty"`
	Mine uint64 `json:"mine,omitempty"`
	// Attributes and OldAttributes belong to OpMetadata.
	Attributes    map[string][]byte `json:"attributes,omitempty"`
	OldAttributes map[string][]byte `json:"old_attributes,omitempty"`
	// Exact is the path if the path is not valid UTF-8, because JSON cannot represent such a path.
	Exact []byte `json:"exact,omitempty"`
}

// Begin writes the journal of a new apply. The journal is on disk when Begin returns. The argument "record" is the size
// of the branch's record in bytes. At the end of the apply, the record is written again.
func (l Log) Begin(j *Journal, record int) (number int, err error) {
	all := l.Dir
	if err := os.MkdirAll(all, 0o700); err != nil {
		return 0, err
	}
	for number = 1; ; number++ {
		j.dir = filepath.Join(all, strconv.Itoa(number))
		if err = os.Mkdir(j.dir, 0o700); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		err = l.prepare(j)
	}
	if err == nil {
		text, marshalErr := json.Marshal(j)
		err = errors.Join(marshalErr, j.reserve(record), durable.Replace(filepath.Join(j.dir, journalFile), text))
	}
	err = errors.Join(err, durable.SyncDir(all), durable.SyncDir(filepath.Dir(all)))
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(j.dir)) // nothing was changed, and the disk can be full
	}
	return number, nil
}

// prepare writes the new contents of a journal and the locks of git. These files are on disk when prepare returns.
func (l Log) prepare(j *Journal) error {
	for i := range j.Steps {
		s := &j.Steps[i]
		if !s.Made {
			continue
		}
		at := filepath.Join(j.dir, strconv.Itoa(i))
		if err := durable.Replace(at, []byte(*s.Content)); err != nil {
			return err
		}
		mode := s.Mode
		if s.Old.Inode != 0 {
			if err := copyOwner(filepath.Join(l.Base, s.Path), at); err != nil {
				return err
			}
		}
		var st unix.Stat_t
		if err := errors.Join(unix.Chmod(at, mode), unix.Lstat(at, &st)); err != nil {
			return err
		}
		s.New = st.Ino
	}
	for i := range j.Locks {
		at := filepath.Join(j.dir, lockName(i))
		var st unix.Stat_t
		if err := errors.Join(os.WriteFile(at, nil, 0o600), unix.Lstat(at, &st)); err != nil {
			return err
		}
		j.Locks[i].Inode = st.Ino
	}
	return nil
}

// copyOwner copies the owner and the attributes of a file.
func copyOwner(from, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return filetree.SetAttributes(to, filetree.Attributes(from))
}

// reserve reserves disk space, so that a full disk cannot stop an apply after its first change.
func (j *Journal) reserve(record int) error {
	size := 2*record + 64<<10
	for i := range j.Steps {
		size += 2*len(j.Steps[i].Path) + 64 // the entries of the step in Renewed
	}
	return os.WriteFile(filepath.Join(j.dir, reserveFile), make([]byte, size), 0o600)
}

// Release removes the file that reserves disk space for the end of the apply.
func (j *Journal) Release() {
	// Ignore the error: the file is missing if an earlier end was interrupted.
	_ = os.Remove(filepath.Join(j.dir, reserveFile))
}

// write writes the file with the steps of a journal again.
func (j *Journal) write() error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(j.dir, journalFile), text)
}

// Record stores the progress of a journal. The progress is on disk when Record returns.
func (j *Journal) Record(state string) error {
	j.State = state
	text, err := json.Marshal(j.Progress)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(j.dir, progressFile), text)
}

// RecordEnd stores the end of an apply or of a revert. The caller must sync the file system afterwards. If the machine
// stops before the sync, the file can be incomplete. The next process then repeats the steps, and notices that they are
// already made.
func (j *Journal) RecordEnd(state string, done int64) error {
	j.State, j.Done = state, done
	text, err := json.Marshal(j.Progress)
	if err != nil {
		return err
	}
	fresh := filepath.Join(j.dir, ".tmp-"+progressFile)
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(j.dir, progressFile))
}

// openJournal reads a journal. It reads the steps only if the apply is not complete. Otherwise, [Journal.Load] reads
// them later.
func openJournal(dir string) (*Journal, error) {
	j := &Journal{dir: dir}
	now, err := readProgress(dir)
	if err != nil {
		return nil, err
	}
	if now.State == Applied || now.State == Reverted {
		j.Progress = now
		return j, nil
	}
	return j, j.Load()
}

// readProgress reads the progress of a journal. The state is empty if no progress was recorded, or if the machine
// stopped during the write.
func readProgress(dir string) (now Progress, err error) {
	text, err := os.ReadFile(filepath.Join(dir, progressFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return now, err // without the progress, an apply that was reverted would be made again
	}
	if json.Unmarshal(text, &now) != nil { // also true if the file is missing
		now = Progress{}
	}
	return now, nil
}

// Load reads the steps of a journal if they are not yet read.
func (j *Journal) Load() error {
	if j.Steps != nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(j.dir, journalFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, j); err != nil {
		return fmt.Errorf("%s: %w", j.dir, err)
	}
	now, err := readProgress(j.dir)
	if err != nil {
		return err
	}
	if now.State != "" {
		j.Progress = now
	}
	for i := range j.Steps {
		if s := &j.Steps[i]; s.Exact != nil {
			s.Path = string(s.Exact)
		}
	}
	return nil
}

// Journals returns the journals except the given ones, the newest last.
func (l Log) Journals(without ...*Journal) (out []*Journal, err error) {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		dir := filepath.Join(l.Dir, e.Name())
		if slices.ContainsFunc(without, func(j *Journal) bool { return j.dir == dir }) {
			continue
		}
		j, readErr := openJournal(dir)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue // the process was killed before it changed anything
		}
		if readErr != nil {
			return nil, readErr
		}
		out = append(out, j)
	}
	number := func(j *Journal) int { n, _ := strconv.Atoi(filepath.Base(j.dir)); return n }
	slices.SortFunc(out, func(a, b *Journal) int { return number(a) - number(b) })
	return out, err
}
