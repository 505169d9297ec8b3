package workspace

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Journal notes the writes that are under way, so that what is left of one whose
// process was killed is cleared up by the next: the temporary file goes, and a file
// that was being written in place gets its old content back. It is a directory that
// outlives the process and may be shared by several.
//
// A plugin that is served by the SDK has one, in its state directory.
type Journal struct {
	dir string

	mu     sync.Mutex
	file   *os.File // nil before the first write
	last   int
	active int

	lockFile *os.File // nil before the first lock; unused where there are none
}

// record is one line of a journal.
type record struct {
	ID int `json:"id"`
	// Temp is the temporary file or, if Backup is set, the copy of the old content.
	Temp   string `json:"temp,omitempty"`
	Target string `json:"target,omitempty"`
	Backup bool   `json:"backup,omitempty"`
	// Old and New are the hashes of the target before (zero: not known) and after (zero: it was
	// not yet written to).
	Old hash `json:"old,omitzero"`
	New hash `json:"new,omitzero"`
	// Ready is when a backup was complete.
	Ready time.Time `json:"ready,omitzero"`
	Done  bool      `json:"done,omitempty"`
}

type hash [32]byte

const journalSuffix = ".journal"

// NewJournal gives the journal in a directory. Nothing is made before the first write.
func NewJournal(dir string) *Journal { return &Journal{dir: dir} }

// begin notes a write before it makes a file. A journal that cannot be written to
// is no reason not to write.
func (j *Journal) begin(r record) *entry {
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
	return &entry{journal: j, id: r.ID}
}

func (j *Journal) add(r record) {
	line, _ := json.Marshal(r)
	_, _ = j.file.Write(append(line, '\n'))
}

// create makes this process's file, which is locked for as long as the process
// lives. Another process may find it before it is locked, and clear it away.
func (j *Journal) create() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	for {
		f, err := os.OpenFile(filepath.Join(j.dir, rand.Text()+journalSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		info, err := f.Stat()
		if err == nil && links(info) > 0 {
			j.file = f
			return nil
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
}

// entry is one write that was noted; nil if there is no journal.
type entry struct {
	journal *Journal
	id      int
}

// become notes what the target is about to be.
func (e *entry) become(content hash) { e.more(record{New: content}) }

// ready notes that the backup is complete, and what the target is about to be.
func (e *entry) ready(content hash) { e.more(record{New: content, Ready: time.Now()}) }

func (e *entry) more(r record) {
	if e == nil {
		return
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	r.ID = e.id
	e.journal.add(r)
}

// done notes that nothing is left to clear up.
func (e *entry) done() {
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
	j.add(record{ID: e.id, Done: true})
}

// pending reads the writes that a journal says were never finished.
func pending(f io.Reader) ([]record, error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	var out []record
	for line := range bytes.Lines(data) {
		var r record
		if json.Unmarshal(line, &r) != nil {
			continue // cut off
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
		case at >= 0 && r.New != (hash{}):
			out[at].New, out[at].Ready = r.New, r.Ready
		}
	}
	return out, nil
}

// MarshalText writes a hash in hexadecimal.
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads a hash in hexadecimal.
func (h *hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return fmt.Errorf("workspace: %q is not a SHA-256", text)
	}
	copy(h[:], b)
	return nil
}
