package state

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
)

// known holds the journals of other processes that were alive at the last check.
type known struct {
	at    time.Time // modification time of the directory at the last check
	files []string
}

// Recover applies the journals of killed processes to the database. It is fast if no process was killed.
func (d *DB) Recover() error {
	if d.path == "" {
		return nil
	}
	d.recovering.Lock()
	defer d.recovering.Unlock()
	st, err := os.Stat(d.journal.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	k := &d.journal.known
	if changed := st.ModTime(); changed != k.at {
		names, err := filepath.Glob(filepath.Join(escapeGlob(d.journal.dir), "*"+journalSuffix))
		if err != nil {
			return err
		}
		k.at, k.files = changed, names
		if time.Since(changed) < time.Second { // a later change could have the same modification time
			k.at = time.Time{}
		}
	}
	own := d.ownJournal()
	others := slices.DeleteFunc(slices.Clone(k.files), func(path string) bool { return path == own })
	if len(others) == 0 {
		return nil
	}
	// Only one process recovers at a time. Another process must wait, because it must not use a session before the
	// session's journal is applied. Otherwise the journal would overwrite newer changes.
	turn, err := flock.Open(filepath.Join(filepath.Dir(d.journal.dir), recoverFile), os.O_RDWR|os.O_CREATE,
		unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer turn.Close() //nolint:errcheck // nothing was written
	// On a full disk, a host adopts the journal of an earlier host. If the host that adopted the journal is then
	// killed, its own journal contains the newer changes and must be applied later.
	slices.SortStableFunc(others, func(a, b string) int { return lastWrite(a).Compare(lastWrite(b)) })
	var errs []error
	for _, path := range others {
		if err := d.recoverJournal(path); err != nil {
			k.at = time.Time{}
			errs = append(errs, fmt.Errorf("the journal %s of a host that was killed cannot be applied: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// lastWrite returns the time of the last write to a journal.
func lastWrite(path string) (last time.Time) {
	segments, _ := filepath.Glob(escapeGlob(strings.TrimSuffix(path, journalSuffix)) + ".[0-9]*")
	for _, s := range segments {
		if st, err := os.Lstat(s); err == nil && st.Size() > 0 && st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last
}

// recoverFile is the name of the lock file of a recovery. It is beside the journals. A process that recovers journals
// locks it.
const recoverFile = "recover.lock"

// escapeGlob returns a pattern that matches only the path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (d *DB) ownJournal() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.journaling { // wait, because another goroutine can be creating the journal
		d.cond.Wait()
	}
	if d.journal.owner == nil {
		return ""
	}
	return d.journal.owner.Name()
}

// recoverJournal applies a journal if its process has ended. If the database cannot be written, it adopts the journal.
func (d *DB) recoverJournal(path string) (err error) {
	f, err := flock.Open(path, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	adopted := false
	defer func() {
		if !adopted {
			_ = f.Close()
		}
	}()
	base := strings.TrimSuffix(path, journalSuffix)
	segments, err := filepath.Glob(escapeGlob(base) + ".[0-9]*")
	if err != nil {
		return err
	}
	var records []*record
	for i, s := range segments {
		found, damaged, err := readSegment(s)
		if err != nil {
			return err
		}
		records = append(records, found...)
		if !damaged {
			continue
		}
		kept := filepath.Join(filepath.Dir(s), damagedPrefix+filepath.Base(s))
		if err := os.Rename(s, kept); err != nil {
			return fmt.Errorf("a damaged journal cannot be set aside: %w", err)
		}
		segments[i] = ""
		d.log.Error("the journal of a killed host is damaged, so the session changes in and after the damaged record are lost. The file is kept, and can be removed", "file", kept)
	}
	segments = slices.DeleteFunc(segments, func(s string) bool { return s == "" })
	slices.SortFunc(records, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	o := orphan{applied: applied{id: filepath.Base(base)}, owner: f, files: append(segments, path)}
	if adopted, err = d.replay(&o, records); err != nil || adopted {
		return err
	}
	return d.removeOrphan(&o)
}

// damagedPrefix begins the names of damaged segments that the host keeps for inspection by a person.
const damagedPrefix = "damaged-"

// applied is the number of a journal's last record that the database contains.
type applied struct {
	id  string
	seq uint64
}

// orphan is the journal of a killed process. The current process holds the lock of the journal.
type orphan struct {
	applied
	owner *os.File
	files []string
}

// removeOrphan removes a journal whose records the database contains.
func (d *DB) removeOrphan(o *orphan) error {
	for _, path := range o.files {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	_, err := d.sql.Exec(`DELETE FROM journals WHERE id = ?`, o.id)
	return err
}

// replay writes the records of a journal to the database. It skips records that the database already contains. If the
// database cannot be written, for example on a full disk, replay adopts the journal. Calls then see the journal's
// changes, and the journal stays locked until the database contains them.
func (d *DB) replay(o *orphan, records []*record) (adopted bool, err error) {
	if len(records) == 0 {
		return false, nil
	}
	d.flush.Lock() // only one transaction at a time can use the prepared statements
	defer d.flush.Unlock()
	var done uint64
	rows := d.sql.QueryRow(`SELECT COALESCE((SELECT seq FROM journals WHERE id = ?), 0)`, o.id)
	if err := rows.Scan(&done); err != nil {
		return false, err
	}
	var b batch
	for _, r := range records {
		if r.Seq > done {
			r.addTo(&b)
		}
	}
	if b.empty() {
		return false, nil
	}
	o.seq = records[len(records)-1].Seq
	unwritable := d.write(b, o.applied)
	if unwritable == nil {
		return false, nil
	}
	d.log.Error("the database cannot be written, so it lacks the changes of a killed host; calls use these changes from memory, and the journal of the killed host keeps them. Free space on the disk, or repair the state directory",
		"journal", o.owner.Name(), "why", withSpace(unwritable, d.path))
	d.mu.Lock()
	b.addTo(&d.orphaned)
	d.orphans = append(d.orphans, o)
	d.mu.Unlock()
	d.wake()
	return true, nil
}

// openRegular opens a regular file. It does not block on a named pipe and does not follow a link.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file; remove it", path), err, f.Close())
	}
	return f, nil
}

// readSegment reads the records of a segment before the first incomplete or damaged record. A kill can leave an
// incomplete record; its call was never answered. A damaged record is complete but contains changed bytes.
func readSegment(path string) (out []*record, damaged bool, err error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	left := st.Size() - int64(len(journalHead))
	in := bufio.NewReader(f)
	head := make([]byte, len(journalHead))
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, false, nil // the segment contains no record
	}
	if string(head) != journalHead {
		return nil, false, errors.New("its format is unknown. Update this program if a later version wrote it, or remove the file")
	}
	for {
		var frame [frameHead]byte
		if _, err := io.ReadFull(in, frame[:]); err != nil {
			return out, false, nil // end of the segment, or an incomplete record without an answered call
		}
		n := binary.LittleEndian.Uint32(frame[:])
		if left -= frameHead + int64(n); left < 0 {
			return out, false, nil
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return out, false, nil
		}
		r := new(record)
		if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(frame[4:]) || json.Unmarshal(body, r) != nil {
			return out, true, nil
		}
		out = append(out, r)
	}
}

// Owners returns the number of running processes that have unsaved changes for the database in a directory. It counts
// only processes that changed a session.
func Owners(dir string) (n int) {
	owners, _ := filepath.Glob(filepath.Join(dir, journalDir, "*"+journalSuffix)) // the pattern is valid
	for _, path := range owners {
		f, err := flock.Open(path, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			n++
		}
		_ = f.Close() // f is nil if an error occurred
	}
	return n
}
