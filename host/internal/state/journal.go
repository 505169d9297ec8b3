package state

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
)

// journal stores the writes of answered calls that the database does not contain yet. Each process has its own
// files. The page cache keeps the bytes of a killed process, so no fsync is needed. Another process later applies the
// journal of a killed process to the database; see [DB.Recover].
//
// A journal consists of segments. Each write to the database starts a new segment and then empties the older segments.
// The database contains the number of the last applied record, so that no record is applied twice.
type journal struct {
	dir string
	id  string // id of the journal; empty before the first record
	seq uint64 // number of the last record
	old []*os.File
	now *os.File // current segment; nil before the first record of a segment
	// unsaved contains segments that can take further records although the database lacks their earlier records.
	unsaved []*os.File
	// spare contains empty segments, and the field "made" is the number of segments.
	spare []*os.File
	made  int
	owner *os.File // file that is locked while the process lives
	known known    // the journals of other processes
}

const (
	journalHead   = "toolhost journal 1\n"
	journalSuffix = ".owner"
	frameHead     = 8 // size of length and checksum
	maxFrame      = 1 << 30
)

// record is a group of writes in a journal. Its fields correspond to the fields of [batch].
type record struct {
	Seq      uint64          `json:"n"`
	Sessions []sessionRecord `json:"sessions,omitempty"`
	Files    []fileRecord    `json:"files,omitempty"`
	States   []stateRecord   `json:"states,omitempty"`
	History  []historyRecord `json:"history,omitempty"`
}

type sessionRecord struct {
	ID        raw `json:"id"`
	Workspace raw `json:"workspace"`
	Cwd       raw `json:"cwd"`
}

type fileRecord struct {
	Session raw    `json:"s"`
	Path    raw    `json:"p"`
	Time    int64  `json:"t"`
	Size    int64  `json:"z,omitempty"`
	Hash    []byte `json:"h,omitempty"`
	Partial bool   `json:"a,omitempty"`
	Removed bool   `json:"r,omitempty"`
}

type stateRecord struct {
	Session raw    `json:"s"`
	Plugin  raw    `json:"p"`
	State   []byte `json:"b"`
}

type historyRecord struct {
	Session raw   `json:"s"`
	At      int64 `json:"t"`
	Command raw   `json:"c"`
	Tool    raw   `json:"o,omitempty"`
	Success bool  `json:"k,omitempty"`
}

// raw is a text of any bytes, such as the name of a file. JSON would replace bytes that are not UTF-8.
// Therefore such a text is encoded as a list with its base64 encoding.
type raw string

// encode appends the text as JSON.
func (r raw) encode(b []byte) []byte {
	if utf8.ValidString(string(r)) {
		return rawjson.AppendString(b, string(r))
	}
	return append(appendBytes(append(b, '['), []byte(r)), ']')
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *raw) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '[' {
		return json.Unmarshal(b, (*string)(r))
	}
	var list [1][]byte
	err := json.Unmarshal(b, &list)
	*r = raw(list[0])
	return err
}

// recordOf returns the writes of a batch as a record. The record does not contain audit entries.
func recordOf(b *batch) *record {
	var r record
	for _, s := range b.sessions {
		r.Sessions = append(r.Sessions, sessionRecord{raw(s.ID), raw(s.Workspace), raw(s.Cwd)})
	}
	for k, c := range b.files {
		f := fileRecord{Session: raw(k.session), Path: raw(k.name), Removed: c.removed}
		if !c.removed {
			f.Time, f.Size, f.Hash, f.Partial = c.state.ModTime.UnixNano(), c.state.Size, c.state.Hash[:],
				c.state.Partial
		}
		r.Files = append(r.Files, f)
	}
	for k, s := range b.pluginStates {
		r.States = append(r.States, stateRecord{Session: raw(k.session), Plugin: raw(k.name), State: s})
	}
	for _, e := range b.history { // commands in the batch are masked
		r.History = append(r.History, historyRecord{
			Session: raw(e.Session), At: e.At.UnixNano(), Command: raw(e.Command), Tool: raw(e.Tool),
			Success: e.Success,
		})
	}
	return &r
}

// encode appends the record as JSON. It takes a quarter of the time of [json.Marshal], which matters because
// each call waits for its record.
func (r *record) encode(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"n":`...), r.Seq, 10)
	b = appendList(b, `,"sessions":[`, r.Sessions, func(b []byte, s sessionRecord) []byte {
		b = s.ID.encode(append(b, `{"id":`...))
		b = s.Workspace.encode(append(b, `,"workspace":`...))
		return s.Cwd.encode(append(b, `,"cwd":`...))
	})
	b = appendList(b, `,"files":[`, r.Files, func(b []byte, f fileRecord) []byte {
		b = f.Session.encode(append(b, `{"s":`...))
		b = f.Path.encode(append(b, `,"p":`...))
		b = strconv.AppendInt(append(b, `,"t":`...), f.Time, 10)
		b = strconv.AppendInt(append(b, `,"z":`...), f.Size, 10)
		b = appendBytes(append(b, `,"h":`...), f.Hash)
		b = strconv.AppendBool(append(b, `,"a":`...), f.Partial)
		return strconv.AppendBool(append(b, `,"r":`...), f.Removed)
	})
	b = appendList(b, `,"states":[`, r.States, func(b []byte, s stateRecord) []byte {
		b = s.Session.encode(append(b, `{"s":`...))
		b = s.Plugin.encode(append(b, `,"p":`...))
		return appendBytes(append(b, `,"b":`...), s.State)
	})
	b = appendList(b, `,"history":[`, r.History, func(b []byte, h historyRecord) []byte {
		b = h.Session.encode(append(b, `{"s":`...))
		b = strconv.AppendInt(append(b, `,"t":`...), h.At, 10)
		b = h.Command.encode(append(b, `,"c":`...))
		b = h.Tool.encode(append(b, `,"o":`...))
		return strconv.AppendBool(append(b, `,"k":`...), h.Success)
	})
	return append(b, "}\n"...)
}

// appendList appends a field with a list of objects. The function "each" appends an object without its closing brace. A
// field without objects is left out.
func appendList[T any](b []byte, field string, list []T, each func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	for i, v := range list {
		if i == 0 {
			b = append(b, field...)
		} else {
			b = append(b, ',')
		}
		b = append(each(b, v), '}')
	}
	return append(b, ']')
}

// appendBytes appends bytes in the encoding that [json.Unmarshal] expects for them.
func appendBytes(b, data []byte) []byte {
	if data == nil {
		return append(b, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), data), '"')
}

// addTo adds the writes of a record to a batch.
func (r *record) addTo(b *batch) {
	for _, s := range r.Sessions {
		put(&b.sessions, string(s.ID), Session{ID: string(s.ID), Workspace: string(s.Workspace), Cwd: string(s.Cwd)})
	}
	for _, f := range r.Files {
		c := fileChange{
			removed: f.Removed, state: tool.FileState{
				Path: string(f.Path), ModTime: time.Unix(0, f.Time), Size: f.Size, Partial: f.Partial,
			},
		}
		copy(c.state.Hash[:], f.Hash)
		put(&b.files, key{string(f.Session), string(f.Path)}, c)
	}
	for _, s := range r.States {
		put(&b.pluginStates, key{string(s.Session), string(s.Plugin)}, s.State)
	}
	for _, h := range r.History { // commands in a journal are masked
		b.history = append(b.history, Entry{
			Session: string(h.Session), At: time.Unix(0, h.At), Command: string(h.Command), Tool: string(h.Tool),
			Success: h.Success, masked: true,
		})
	}
}

// Commit ensures that the earlier changes survive a kill of this process. It writes the changes to the journal,
// together with the changes of other waiting callers. If the journal cannot be written, Commit writes to the database.
// If both writes fail, Commit returns the error, and the changes stay in memory for a later write.
func (d *DB) Commit() error {
	if d.path == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.changes
	for d.kept < want {
		switch {
		case d.journaling || d.holding:
			d.cond.Wait()
			continue
		case d.through:
			d.mu.Unlock()
			err := d.Flush()
			d.mu.Lock()
			if err != nil {
				return d.unsavable(err)
			}
			continue
		}
		if err := d.appendUnkept(); err != nil {
			d.mu.Unlock()
			flushed := d.Flush()
			d.mu.Lock()
			if flushed != nil {
				return d.unsavable(fmt.Errorf("%w; %w", err, flushed))
			}
		}
	}
	return nil
}

// WriteThrough makes each Commit write to the database, so that other processes immediately see the changes.
func (d *DB) WriteThrough() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.through = true
}

func (d *DB) unsavable(err error) error {
	return fmt.Errorf("%s: %w", filepath.Dir(d.path), withSpace(err, d.path))
}

// appendUnkept appends the changes in the field "unkept" to the journal. The caller must hold d.mu. appendUnkept
// unlocks d.mu during the write.
func (d *DB) appendUnkept() error {
	b, upTo := d.unkept, d.changes
	d.unkept, d.journaling = batch{}, true
	d.mu.Unlock()
	err := d.journal.append(recordOf(&b))
	d.mu.Lock()
	d.journaling = false
	if err == nil {
		d.kept = max(d.kept, upTo)
	} else {
		d.unkept.addTo(&b)
		d.unkept = b
	}
	d.cond.Broadcast()
	return err
}

// append writes a record. Only one goroutine at a time is allowed to call it.
func (j *journal) append(r *record) error {
	if j.now == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	r.Seq = j.seq + 1
	frame := r.encode(make([]byte, frameHead, 1024))
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.LittleEndian.PutUint32(frame[4:], crc32.ChecksumIEEE(frame[frameHead:]))
	if len(frame) > maxFrame {
		return errors.New("the record is too large")
	}
	if n, err := j.now.Write(frame); err != nil {
		if n > 0 { // use another segment, because an incomplete record would hide later records in this segment
			j.old = append(j.old, j.now)
			j.now = nil
		}
		return err
	}
	j.seq = r.Seq
	return nil
}

// begin opens an empty segment. It creates a missing journal.
func (j *journal) begin() error {
	if j.owner == nil {
		if err := j.create(); err != nil {
			return err
		}
	}
	if last := len(j.unsaved) - 1; last >= 0 {
		j.now, j.unsaved = j.unsaved[last], j.unsaved[:last]
		return nil
	}
	for len(j.spare) == 0 || j.made < 2 { // two segments, because the journal grows in one while the database receives the records of the other
		f, err := os.OpenFile(filepath.Join(j.dir, j.id+"."+strconv.Itoa(j.made)),
			os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		j.made++
		j.spare = append(j.spare, f)
	}
	last := len(j.spare) - 1
	j.now, j.spare = j.spare[last], j.spare[:last]
	_, err := j.now.WriteString(journalHead)
	if err != nil {
		j.old = append(j.old, j.now)
		j.now = nil
	}
	return err
}

// create creates the file that is locked while this process lives.
func (j *journal) create() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // the error is ignored, because Read always succeeds
		id := hex.EncodeToString(b[:])
		f, err := flock.Open(filepath.Join(j.dir, id+journalSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL,
			unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) { // a recovering process locked the file first
			continue
		}
		j.id, j.owner = id, f
		return err
	}
}

// rotate ends the current segment. The next record begins a new segment. The method returns the ended
// segments.
func (j *journal) rotate() (ended []*os.File) {
	ended, j.unsaved = j.unsaved, nil
	if j.now != nil {
		ended = append(ended, j.now)
		j.now = nil
	}
	j.old = append(j.old, ended...)
	return ended
}

// reuse permits further records in ended segments, because the database did not receive their records.
// Otherwise each failed write to the database would create another file.
func (j *journal) reuse(ended []*os.File) {
	j.old = slices.DeleteFunc(j.old, func(f *os.File) bool { return slices.Contains(ended, f) })
	j.unsaved = append(j.unsaved, ended...)
}

// empty removes the content of the first n segments, because the database contains their records.
func (j *journal) empty(n int) {
	for _, f := range j.old[:n] {
		if f.Truncate(0) == nil {
			j.spare = append(j.spare, f)
		}
	}
	j.old = append([]*os.File(nil), j.old[n:]...)
}

// remove deletes the files of the journal, because the database contains all records.
func (j *journal) remove() {
	if j.owner == nil {
		return
	}
	j.rotate()
	for _, f := range append(j.old, j.spare...) {
		_ = os.Remove(f.Name())
		_ = f.Close()
	}
	_ = os.Remove(j.owner.Name())
	_ = j.owner.Close()
	*j = journal{dir: j.dir}
}

// closeJournal removes the journal if the database contains all its records.
func (d *DB) closeJournal() {
	d.mu.Lock()
	saved := d.pending.empty()
	id := d.journal.id
	for _, o := range d.orphans {
		_ = o.owner.Close() // error ignored: another process applies the journal
	}
	if saved {
		d.journal.remove()
	}
	d.mu.Unlock()
	if saved && id != "" {
		_, _ = d.sql.Exec(`DELETE FROM journals WHERE id = ?`, id) // error ignored: a later recovery removes the row
	}
}
