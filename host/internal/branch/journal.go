package branch

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
)

// States of a journal. A journal in one of the first two states is continued by the next process that uses the branch.
const (
	applying = "applying"
	undoing  = "undoing" // the apply failed and is taken back
	applied  = "applied"
	reverted = "reverted"
)

// journal describes an apply. It is on disk before the first change of the base. The directory of the journal also has the
// displaced files of the base, each with the number of its step as name.
type journal struct {
	progress
	At time.Time `json:"at"`
	// Checked is the time of the base's file system before the conflicts were searched, in nanoseconds.
	Checked int64  `json:"checked"`
	Steps   []step `json:"steps"`
	// Whole is the inode of the layer if all changes are applied. See [exchanger.forwardWhole].
	Whole uint64 `json:"whole,omitempty"`
	// Since and Renewed are those of the branch before the apply.
	Since   int64            `json:"since,omitempty"`
	Renewed map[string]int64 `json:"renewed,omitempty"`
	// Locks are the locks of git in the base for the time of the apply.
	Locks []gitLock `json:"locks,omitempty"`

	dir string
}

// progress is the part of a journal that changes. It is in a file of its own, which replaces what the journal says.
type progress struct {
	State string `json:"state"`
	// Done is the time of the base's file system after the last change.
	Done int64 `json:"done,omitempty"`
}

// step is one change of the base.
type step struct {
	Change
	// Drop means that the layer's version is removed, because the workspace's version is kept.
	Drop bool `json:"drop,omitempty"`
	// New is the inode of the layer's version, and Old identifies the base's version.
	New uint64  `json:"new,omitempty"`
	Old stampOf `json:"old,omitzero"`
	// Contested means that the base changed the path after the branch began. A revert does not settle that.
	Contested bool `json:"contested,omitempty"`
	// Index is the sum of the entries of an index of git.
	Index string `json:"index,omitempty"`
	// Opaque means that the layer's version hid a directory of the base.
	Opaque bool `json:"opaque,omitempty"`
	// Made means that the base gets a new content, which is in the directory of the journal. New is its inode. Mine is the
	// inode of the layer's version, which moves to the journal, or 0.
	Made bool   `json:"made,omitempty"`
	Mine uint64 `json:"mine,omitempty"`
	// Attributes and OldAttributes belong to OpMetadata.
	Attributes    map[string][]byte `json:"attributes,omitempty"`
	OldAttributes map[string][]byte `json:"old_attributes,omitempty"`
	// Exact is the path if it is not valid UTF-8, which JSON cannot contain.
	Exact []byte `json:"exact,omitempty"`
}

// begin writes the journal of a new apply. It is on disk when begin returns.
func (b *Branch) begin(j *journal) (number int, err error) {
	all := filepath.Join(b.dir, appliedDir)
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
		err = b.prepare(j)
	}
	if err == nil {
		text, marshalErr := json.Marshal(j)
		err = errors.Join(marshalErr, b.reserve(j), durable.Replace(filepath.Join(j.dir, journalFile), text))
	}
	err = errors.Join(err, durable.SyncDir(all), durable.SyncDir(b.dir))
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(j.dir)) // nothing was changed, and the disk can be full
	}
	return number, nil
}

// prepare writes the new contents of a journal and the locks of git. They are on disk when prepare returns.
func (b *Branch) prepare(j *journal) error {
	for i := range j.Steps {
		s := &j.Steps[i]
		if !s.Made {
			continue
		}
		at := filepath.Join(j.dir, strconv.Itoa(i))
		if err := durable.Replace(at, []byte(*s.made)); err != nil {
			return err
		}
		mode := s.Mode
		if s.Old.Inode != 0 {
			if err := copyOwner(filepath.Join(b.Base, s.Path), at); err != nil {
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
	return setAttributes(to, attributesOf(from))
}

// reserveFile is in the directory of a journal until its end, and keeps the space that the end needs.
const reserveFile = "reserve"

// reserve makes sure that a full disk cannot stop an apply after its first change.
func (b *Branch) reserve(j *journal) error {
	record, err := json.Marshal(b)
	if err != nil {
		return err
	}
	size := 2*len(record) + 64<<10
	for i := range j.Steps {
		size += 2*len(j.Steps[i].Path) + 64 // its entries in Renewed
	}
	return os.WriteFile(filepath.Join(j.dir, reserveFile), make([]byte, size), 0o600)
}

// record stores the progress of a journal. It is on disk when record returns.
func (j *journal) record(state string) error {
	j.State = state
	text, err := json.Marshal(j.progress)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(j.dir, progressFile), text)
}

// recordEnd stores the end of an apply or of a revert. The caller must sync the file system afterwards. If the machine stops
// before, the file can be incomplete. The next process then repeats the steps, and finds them made.
func (j *journal) recordEnd(state string, done int64) error {
	j.State, j.Done = state, done
	text, err := json.Marshal(j.progress)
	if err != nil {
		return err
	}
	fresh := filepath.Join(j.dir, ".tmp-"+progressFile)
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(j.dir, progressFile))
}

// openJournal reads a journal. It reads the steps only if they are necessary to find out the state; see [journal.load].
func openJournal(dir string) (*journal, error) {
	j := &journal{dir: dir}
	if text, err := os.ReadFile(filepath.Join(dir, progressFile)); err == nil && json.Unmarshal(text, &j.progress) == nil && (j.State == applied || j.State == reverted) {
		return j, nil
	}
	return j, j.load()
}

// load reads the steps of a journal.
func (j *journal) load() error {
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
	var now progress
	if text, err := os.ReadFile(filepath.Join(j.dir, progressFile)); err == nil && json.Unmarshal(text, &now) == nil && now.State != "" {
		j.progress = now
	}
	for i := range j.Steps {
		if s := &j.Steps[i]; s.Exact != nil {
			s.Path = string(s.Exact)
		}
	}
	return nil
}

// journals returns the journals of the branch, the newest last, without those in the given directories.
func (b *Branch) journals(without ...string) (out []*journal, err error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, appliedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		dir := filepath.Join(b.dir, appliedDir, e.Name())
		if slices.Contains(without, dir) {
			continue
		}
		j, readErr := openJournal(dir)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue // a process was killed before it changed anything
		}
		if readErr != nil {
			return nil, readErr
		}
		out = append(out, j)
	}
	number := func(j *journal) int { n, _ := strconv.Atoi(filepath.Base(j.dir)); return n }
	slices.SortFunc(out, func(a, b *journal) int { return number(a) - number(b) })
	return out, err
}

// killAt lets a test end this process before a given step, as if it had been killed.
var killAt = func() int {
	n, _ := strconv.Atoi(os.Getenv("TOOLHOST_TEST_KILL_AT"))
	return n
}()

func killed() {
	if killAt > 0 {
		if killAt--; killAt == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
}
