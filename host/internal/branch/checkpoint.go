package branch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	checkpointsDir = "checkpoints"
	checkpointFile = "checkpoint.json"
)

// Checkpoint is a copy of the layer of a branch.
type Checkpoint struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
	// Files counts the files in the copy, and Bytes is their size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Checkpoints lists the checkpoints of a branch, the oldest first.
func (b *Branch) Checkpoints() ([]Checkpoint, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Checkpoint
	for _, e := range entries {
		var c Checkpoint
		text, readErr := os.ReadFile(filepath.Join(b.dir, checkpointsDir, e.Name(), checkpointFile))
		if readErr == nil && json.Unmarshal(text, &c) == nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Number, b.Number) })
	return out, err
}

// Checkpoint copies the layer of a branch, so that [Store.Restore] can go back to it. The branch must not be mounted. The
// copies share their data with the layer where the file system supports it.
func (s *Store) Checkpoint(b *Branch, message string) (*Checkpoint, error) {
	lock, err := waitLock(b)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	return b.checkpoint(message)
}

func (b *Branch) checkpoint(message string) (*Checkpoint, error) {
	all, err := b.Checkpoints()
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Number: 1, At: time.Now(), Message: message}
	if len(all) > 0 {
		c.Number = all[len(all)-1].Number + 1
	}
	dir := filepath.Join(b.dir, checkpointsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fresh, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return nil, err
	}
	defer removeAll(fresh) //nolint:errcheck // it is gone after the rename below
	if err := copyTree(b.Layer(), filepath.Join(fresh, upperDir), c); err != nil {
		return nil, fmt.Errorf("the checkpoint of the branch %s cannot be made: %w", b.Name, err)
	}
	text, err := json.Marshal(c)
	if err == nil {
		err = replaceFile(filepath.Join(fresh, checkpointFile), text)
	}
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, strconv.Itoa(c.Number)))
	}
	return c, errors.Join(err, syncDirectory(dir))
}

// Restore makes the layer of a branch what it was at a checkpoint. Number 0 means the last one. It first makes a checkpoint
// of the layer as it is, so a restore can be taken back.
func (s *Store) Restore(b *Branch, number int) (restored, saved *Checkpoint, err error) {
	lock, err := waitLock(b)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	if err := b.recover(); err != nil {
		return nil, nil, err
	}
	all, err := b.Checkpoints()
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Number == number })
	if number == 0 {
		i = len(all) - 1
	}
	if i < 0 {
		return nil, nil, fmt.Errorf("the branch %s has no such checkpoint. See toolhost branch checkpoints %[1]s", b.Name)
	}
	if saved, err = b.checkpoint(fmt.Sprintf("before the restore of checkpoint %d", all[i].Number)); err != nil {
		return nil, nil, err
	}
	fresh, err := os.MkdirTemp(b.dir, ".new-")
	if err != nil {
		return nil, nil, err
	}
	defer removeAll(fresh) //nolint:errcheck // it has only the old layer after the rename below
	next := filepath.Join(fresh, upperDir)
	if err := copyTree(filepath.Join(b.dir, checkpointsDir, strconv.Itoa(all[i].Number), upperDir), next, new(Checkpoint)); err != nil {
		return nil, nil, fmt.Errorf("the branch %s cannot be restored: %w", b.Name, err)
	}
	if err := exchangePaths(next, b.Layer()); err != nil {
		return nil, nil, fmt.Errorf("the branch %s cannot be restored: %w", b.Name, err)
	}
	return &all[i], saved, syncDirectory(b.dir)
}

// copyTree copies a layer with all that the overlay stores in it, and counts the files in c.
func copyTree(from, to string, c *Checkpoint) error {
	type directory struct {
		path string
		st   unix.Stat_t
	}
	var directories []directory
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			directories = append(directories, directory{at, st})
			return errors.Join(os.Mkdir(at, 0o700), copyMarks(path, at))
		case unix.S_IFREG:
			c.Files++
			c.Bytes += st.Size
			if err := copyFile(path, at); err != nil {
				return err
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, at) //nolint:gosec // nobody else uses the layer, which is locked
			}
			if err != nil {
				return err
			}
		case unix.S_IFSOCK:
			return nil // nobody listens on it any more
		default:
			if err := unix.Mknod(at, uint32(st.Mode), int(st.Rdev)); err != nil { //nolint:unconvert // not all systems have these sizes
				return err
			}
			return finishCopy(at, &st)
		}
		return errors.Join(copyMarks(path, at), finishCopy(at, &st))
	})
	for _, d := range slices.Backward(directories) { // at last, because copies change the times and need the right to write
		err = errors.Join(err, finishCopy(d.path, &d.st))
	}
	return err
}

func copyFile(from, to string) error {
	in, err := openRegular(from)
	if errors.Is(err, unix.EACCES) { // a file that its owner cannot read
		restore := readable(from)
		in, err = openRegular(from)
		restore()
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // copy_file_range, which shares the data where the file system can
	return errors.Join(err, out.Close())
}

// readable makes a file readable for its owner. The returned function restores the mode.
func readable(path string) (restore func()) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || unix.Chmod(path, uint32(st.Mode)&0o7777|0o400) != nil { //nolint:unconvert // as above
		return func() {}
	}
	return func() { _ = unix.Chmod(path, uint32(st.Mode)&0o7777) } //nolint:unconvert // as above
}

// copyMarks copies the extended attributes of a file, with the marks of the overlay.
func copyMarks(from, to string) error {
	all := attributesOf(from)
	for _, m := range marks {
		buf := make([]byte, 4096)
		if n, err := unix.Lgetxattr(from, m, buf); err == nil {
			if all == nil {
				all = make(map[string][]byte)
			}
			all[m] = buf[:n]
		}
	}
	for name, value := range all {
		if err := unix.Lsetxattr(to, name, value, 0); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	return nil
}

// finishCopy sets the owner, the mode and the times of a copy.
func finishCopy(path string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(path, uint32(st.Mode)&0o7777); err != nil { //nolint:unconvert // as above
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
