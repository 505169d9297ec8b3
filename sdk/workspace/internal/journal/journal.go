// Package journal implements [Journal]. A journal records writes that are in progress. If a process is killed during
// a write, another process uses the journal to clean up.
//
// Each process appends to its own locked file. [Journal.Recover] reads the files that are not locked, because their
// processes are dead. [Journal.Lock] locks paths between processes that share the directory.
package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
)

// Journal is the journal in one directory. A nil Journal neither records writes nor locks paths. Journal is safe for
// concurrent use.
type Journal struct {
	dir string

	mu     sync.Mutex
	file   *os.File // nil before the first write
	last   int
	active int

	lockFile *os.File // nil before the first lock, and on systems without record locks
}

// Record describes one write.
type Record struct {
	// ID identifies a write among the writes of one process. Begin sets it.
	ID int `json:"id"`
	// Temp is the path of the temporary file. If Backup is true, it is the path of the backup of the old content.
	Temp   string `json:"temp,omitempty"`
	Target string `json:"target,omitempty"`
	Backup bool   `json:"backup,omitempty"`
	// Device and Inode identify the directory of the target. Zero means that they are unknown. Sandboxes can show
	// different directories at the same path.
	Device uint64 `json:"device,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	// Old is the hash of the target before the write. A zero Old means that the hash is unknown.
	Old Hash `json:"old,omitzero"`
	// New is the hash of the target after the write. A zero New means that the target has not changed yet.
	New Hash `json:"new,omitzero"`
	// Ready is the time at which the backup was complete.
	Ready time.Time `json:"ready,omitzero"`
	// Done marks the end of the write.
	Done bool `json:"done,omitempty"`
}

// Hash is a SHA-256 hash.
type Hash [32]byte

const suffix = ".journal"

// New returns the journal in the directory dir. It creates no files before the first write.
func New(dir string) *Journal { return &Journal{dir: dir} }

// Path returns the path of a file in the journal's directory.
func (j *Journal) Path(name string) string { return filepath.Join(j.dir, name) }

// Begin records a write before its temporary file is created. If the journal is not writable, Begin returns nil,
// because the write can proceed without a journal.
func (j *Journal) Begin(r Record) *Entry {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil && j.create() != nil {
		return nil
	}
	j.last++
	j.active++
	r.ID = j.last
	j.add(r)
	return &Entry{journal: j, id: r.ID}
}

func (j *Journal) add(r Record) {
	line, _ := json.Marshal(r)
	_, _ = j.file.Write(append(line, '\n'))
}

// create creates the journal file of this process and locks it until the process ends.
func (j *Journal) create() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	f, err := flock.Open(j.Path(rand.Text()+suffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, unix.LOCK_EX)
	if err != nil {
		return err
	}
	j.file = f
	return nil
}

// Entry is one recorded write. The methods of a nil Entry do nothing.
type Entry struct {
	journal *Journal
	id      int
}

// Become records the hash of the new content. It must be called before the target changes.
func (e *Entry) Become(content Hash) { e.add(Record{New: content}) }

// Ready records that the backup is complete. It also records the hash of the new content. It must be called before
// the target changes.
func (e *Entry) Ready(content Hash) { e.add(Record{New: content, Ready: time.Now()}) }

func (e *Entry) add(r Record) {
	if e == nil {
		return
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	r.ID = e.id
	e.journal.add(r)
}

// Done records that the write has ended and needs no cleanup.
func (e *Entry) Done() {
	if e == nil {
		return
	}
	j := e.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.active--; j.active == 0 {
		_ = j.file.Truncate(0)
		return
	}
	j.add(Record{ID: e.id, Done: true})
}

// Recover calls clean for each unfinished write of dead processes. If clean reports all writes of a process as
// recovered, Recover removes the journal file of that process. It returns the joined errors of clean.
func (j *Journal) Recover(clean func(Record) (recovered bool, err error)) error {
	names, err := filepath.Glob(j.Path("*" + suffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := recoverFile(name, clean); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// recoverFile recovers the writes in one journal file. It does nothing if the process that wrote the file is alive.
func recoverFile(name string, clean func(Record) (recovered bool, err error)) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has already recovered and removed the file
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if !flock.Try(f) {
		return nil
	}
	records, err := pending(f)
	if err != nil {
		return err
	}
	var errs []error
	left := false
	for _, r := range records {
		recovered, err := clean(r)
		left = left || !recovered
		errs = append(errs, err)
	}
	if !left {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// pending returns the unfinished writes in a journal file.
func pending(f io.Reader) ([]Record, error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	var out []Record
	for line := range bytes.Lines(data) {
		var r Record
		if json.Unmarshal(line, &r) != nil {
			continue // skip an incomplete line: the process was killed while it wrote the line
		}
		at := -1
		for i := range out {
			if out[i].ID == r.ID {
				at = i
			}
		}
		switch {
		case at < 0 && r.Temp != "":
			out = append(out, r)
		case at >= 0 && r.Done:
			out = append(out[:at], out[at+1:]...)
		case at >= 0 && r.New != (Hash{}):
			out[at].New, out[at].Ready = r.New, r.Ready
		}
	}
	return out, nil
}

// MarshalText encodes a hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText decodes a hash in hexadecimal.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return fmt.Errorf("journal: %q is not a SHA-256", text)
	}
	copy(h[:], b)
	return nil
}
