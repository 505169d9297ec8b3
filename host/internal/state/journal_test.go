package state

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
	"toolhost.dev/sdk/tool"
)

// openTest opens a database without its background writes. The test controls the time of each write.
func openTest(t *testing.T, dir string) *DB {
	t.Helper()
	d, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// die simulates a kill of the process: it releases the lock and prevents further writes.
func die(d *DB) {
	d.flush.Lock() // never unlocked
	_ = d.journal.owner.Close()
}

func commit(t *testing.T, d *DB) {
	t.Helper()
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestCommittedChangesSurviveAKill checks each kind of change, with and without an earlier write to the database. It
// also checks a record that the kill left incomplete.
func TestCommittedChangesSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	d := openTest(t, dir)
	file := tool.FileState{Path: "/w/f", ModTime: time.Unix(5, 7), Size: 3, Hash: [32]byte{1, 2}, Partial: true}
	d.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w"})
	d.AddHistory(Entry{Session: "s", At: time.Unix(1, 0), Command: "first", Tool: "bash", Success: true})
	commit(t, d)
	if err := d.Flush(); err != nil { // the journal keeps its first record if the process dies before it empties the journal
		t.Fatal(err)
	}
	d.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/sub"})
	d.SavePluginState("s", "bash", []byte("A=1"))
	d.Apply("s", []tool.Effect{{File: file}, {File: tool.FileState{Path: "/w/gone"}, Operation: tool.OpDelete}})
	commit(t, d)
	d.AddHistory(Entry{Session: "s", At: time.Unix(2, 0), Command: "second", Tool: "read"})
	commit(t, d)
	segment := d.journal.now.Name()
	die(d)
	f, err := os.OpenFile(segment, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte{200, 0, 0, 0, 1, 2, 3, 4, '{'})
	_ = f.Close()

	for range 2 { // the second recovery finds no journal
		next := openTest(t, dir)
		s, known, err := next.Session("s")
		if err != nil || !known || s.Cwd != "/w/sub" {
			t.Errorf("%+v %v %v", s, known, err)
		}
		if got, known, err := next.FileState("s", "/w/f"); err != nil || !known || got != file {
			t.Errorf("%+v %v %v", got, known, err)
		}
		if state, err := next.PluginState("s", "bash"); err != nil || string(state) != "A=1" {
			t.Errorf("%q %v", state, err)
		}
		h, err := next.History("s", 10)
		if err != nil || len(h) != 2 || h[0].Command != "first" || h[1].Command != "second" || !h[0].Success || h[1].Success {
			t.Errorf("%+v %v", h, err)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, journalDir)); err != nil || len(left) > 0 {
			t.Errorf("%v is left (%v)", left, err)
		}
	}
}

// TestBytesSurviveAKill checks that texts with invalid UTF-8, such as file names, stay unchanged.
func TestBytesSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	d := openTest(t, dir)
	d.flush.Lock() // block writes to the database, so that only the journal keeps the changes
	file := tool.FileState{Path: "/w/\xff\xfe[\ufffd", ModTime: time.Unix(5, 7), Size: 3}
	d.SaveSession(Session{ID: "s\x80", Workspace: "/w/\xc3", Cwd: "/w/\xc3/\xff"})
	d.SavePluginState("s\x80", "bash", []byte("A=\xff"))
	d.Apply("s\x80", []tool.Effect{{File: file}})
	d.AddHistory(Entry{Session: "s\x80", At: time.Unix(1, 0), Command: "cat \xff", Tool: "bash"})
	commit(t, d)
	_ = d.journal.owner.Close()
	next := openTest(t, dir)
	defer next.Close()
	if s, known, err := next.Session("s\x80"); err != nil || !known || s.Workspace != "/w/\xc3" || s.Cwd != "/w/\xc3/\xff" {
		t.Errorf("%+q %v %v", s, known, err)
	}
	if got, known, err := next.FileState("s\x80", file.Path); err != nil || !known || got != file {
		t.Errorf("%+v %v %v", got, known, err)
	}
	if state, err := next.PluginState("s\x80", "bash"); err != nil || string(state) != "A=\xff" {
		t.Errorf("%q %v", state, err)
	}
	if h, err := next.History("s\x80", 10); err != nil || len(h) != 1 || h[0].Command != "cat \xff" {
		t.Errorf("%+v %v", h, err)
	}
}

// TestCorruptLength checks that the recovery of a segment needs no more memory than the segment's size, whatever length
// a record contains.
func TestCorruptLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, []byte(journalHead+"\xff\xff\xff\x3f\x00\x00\x00\x00{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if found, damaged, err := readSegment(path); err != nil || damaged || len(found) > 0 {
		t.Errorf("%v %v %v", found, damaged, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 {
		t.Errorf("%d bytes for a small file", n)
	}
}

// TestDamagedJournal checks that the recovery keeps a journal with changed bytes and applies the records before the
// damage. It must not keep a journal that is only cut in its last record.
func TestDamagedJournal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		cwd    string
		kept   int
	}{
		"a changed byte": {func(b []byte) []byte { b[len(b)-5] ^= 1; return b }, "/w/first", 1},
		"an end cut off": {func(b []byte) []byte { return b[:len(b)-5] }, "/w/first", 0},
		"unchanged":      {func(b []byte) []byte { return b }, "/w/second", 0},
	} {
		dir := t.TempDir()
		killed, next := openTest(t, dir), openTest(t, dir)
		killed.flush.Lock()
		for _, cwd := range []string{"/w/first", "/w/second"} {
			killed.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: cwd})
			commit(t, killed)
		}
		rename(t, killed, "ff")
		_ = killed.journal.owner.Close()
		segments, err := filepath.Glob(filepath.Join(dir, "journal", "ff*.[0-9]*"))
		if err != nil || len(segments) == 0 {
			t.Fatal(segments, err)
		}
		last := segments[len(segments)-1]
		b, err := os.ReadFile(last)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(last, c.change(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := next.Recover(); err != nil {
			t.Error(name, err)
		}
		s, _, err := next.Session("s")
		kept, _ := filepath.Glob(filepath.Join(dir, "journal", damagedPrefix+"*"))
		if err != nil || s.Cwd != c.cwd || len(kept) != c.kept {
			t.Errorf("%s: %s, %v, %q", name, s.Cwd, err, kept)
		}
		killed.flush.Unlock()
	}
}

// unwritable makes all writes of sessions fail until the caller calls repair.
func unwritable(t *testing.T, d *DB) (repair func()) {
	t.Helper()
	exec := func(query string) {
		if _, err := d.sql.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE sessions RENAME TO hidden`)
	return func() { exec(`ALTER TABLE hidden RENAME TO sessions`) }
}

// TestOrphanOfAnUnwritableDatabase checks that calls see the changes of a killed host although the database cannot be
// written. This must also hold after a kill of the host that took over the changes. Newer changes must replace older
// ones.
func TestOrphanOfAnUnwritableDatabase(t *testing.T) {
	dir := t.TempDir()
	killed, adopts, next := openTest(t, dir), openTest(t, dir), openTest(t, dir)
	killed.flush.Lock()
	killed.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/answered"})
	killed.SaveSession(Session{ID: "other", Workspace: "/w", Cwd: "/w/other"})
	commit(t, killed)
	repair := unwritable(t, adopts)
	rename(t, killed, "ff")
	_ = killed.journal.owner.Close()

	if err := adopts.Recover(); err != nil {
		t.Error(err)
	}
	if s, known, err := adopts.Session("s"); err != nil || !known || s.Cwd != "/w/answered" {
		t.Errorf("%+v %v %v", s, known, err)
	}
	if err := next.Recover(); err != nil { // the current process holds the lock of the killed host's journal
		t.Error(err)
	}
	if len(next.orphans) > 0 {
		t.Error("two processes adopted a journal")
	}
	adopts.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/newer"})
	commit(t, adopts)
	adopts.flush.Lock() // simulate a kill of the process
	time.Sleep(10 * time.Millisecond)
	rename(t, adopts, "00")
	_ = adopts.journal.owner.Close()
	for _, o := range adopts.orphans {
		_ = o.owner.Close()
	}

	if err := next.Recover(); err != nil {
		t.Error(err)
	}
	for id, cwd := range map[string]string{"s": "/w/newer", "other": "/w/other"} {
		if s, known, err := next.Session(id); err != nil || !known || s.Cwd != cwd {
			t.Errorf("%+v %v %v, wanted %s", s, known, err, cwd)
		}
	}
	if len(next.orphans) != 2 {
		t.Errorf("%d journals are adopted, wanted 2", len(next.orphans))
	}
	repair()
	if err := next.Flush(); err != nil {
		t.Error(err)
	}
	if s := stored(t, dir, "s"); s.Cwd != "/w/newer" {
		t.Errorf("%+v", s)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, journalDir)); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// rename renames the journal of a database. The names determine the order in which the recovery finds
// journals.
func rename(t *testing.T, d *DB, id string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(d.journal.dir, d.journal.id+".*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Rename(name, filepath.Join(d.journal.dir, id+filepath.Ext(name))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSegmentsOfAnUnwritableDatabase checks that failed writes to the database do not add files to the journal.
func TestSegmentsOfAnUnwritableDatabase(t *testing.T) {
	dir := t.TempDir()
	d := openTest(t, dir)
	repair := unwritable(t, d)
	for n := range 20 {
		d.SaveSession(Session{ID: fmt.Sprint("s", n), Workspace: "/w", Cwd: "/w"})
		commit(t, d)
		if err := d.Flush(); err == nil {
			t.Fatal("the database can be written")
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, journalDir)); err != nil || len(files) > 4 {
		t.Errorf("%d files (%v)", len(files), err)
	}
	d.flush.Lock()
	_ = d.journal.owner.Close() // simulate a kill of the process
	repair()
	next := openTest(t, dir)
	defer next.Close()
	for n := range 20 {
		if _, known, err := next.Session(fmt.Sprint("s", n)); !known || err != nil {
			t.Errorf("session %d: %v %v", n, known, err)
		}
	}
}

// TestJournalOfALivingProcess checks that only the journals of killed processes are recovered.
func TestJournalOfALivingProcess(t *testing.T) {
	dir := t.TempDir()
	a, b := openTest(t, dir), openTest(t, dir)
	defer b.Close()
	a.flush.Lock() // block writes to the database, so that only the journal keeps the session
	a.SaveSession(Session{ID: "a", Workspace: "/w", Cwd: "/w"})
	commit(t, a)
	if err := b.Recover(); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Session("a"); known || err != nil {
		t.Errorf("%v %v", known, err)
	}
	_ = a.journal.owner.Close()
	if err := b.Recover(); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Session("a"); !known || err != nil {
		t.Errorf("%v %v", known, err)
	}
}

// TestCommitWithoutAJournal checks that a commit writes to the database if the journal cannot be written. If both
// writes fail, the commit must return an error and keep the changes. A later commit must write them.
func TestCommitWithoutAJournal(t *testing.T) {
	dir := t.TempDir()
	d := openTest(t, dir)
	defer d.Close()
	if err := os.WriteFile(filepath.Join(dir, journalDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w"})
	commit(t, d)
	if s := stored(t, dir, "s"); s.Cwd != "/w" {
		t.Errorf("%+v", s)
	}
	if _, err := d.sql.Exec(`ALTER TABLE sessions RENAME TO hidden`); err != nil {
		t.Fatal(err)
	}
	d.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/sub"})
	if err := d.Commit(); err == nil {
		t.Error("a commit succeeded without a journal and a table")
	}
	if s, known, err := d.Session("s"); err != nil || !known || s.Cwd != "/w/sub" {
		t.Errorf("%+v %v %v", s, known, err)
	}
	if _, err := d.sql.Exec(`ALTER TABLE hidden RENAME TO sessions`); err != nil {
		t.Fatal(err)
	}
	commit(t, d)
	if s := stored(t, dir, "s"); s.Cwd != "/w/sub" {
		t.Errorf("%+v", s)
	}
}

// stored returns a session as another process reads it.
func stored(t *testing.T, dir, id string) Session {
	t.Helper()
	other := openTest(t, dir)
	defer other.Close()
	s, _, err := other.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOneProcessRecovers checks that a process waits while another process recovers a journal. Otherwise the process
// could use a session too early, and the recovery would overwrite its changes.
func TestOneProcessRecovers(t *testing.T) {
	dir := t.TempDir()
	a, b := openTest(t, dir), openTest(t, dir)
	defer b.Close()
	a.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w"})
	a.flush.Lock() // block writes to the database
	commit(t, a)
	_ = a.journal.owner.Close()
	other, err := os.OpenFile(filepath.Join(dir, recoverFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := flock.Apply(other, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- b.Recover() }()
	select {
	case err := <-done:
		t.Fatal("the process did not wait: ", err)
	case <-time.After(100 * time.Millisecond):
	}
	_ = other.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Session("s"); !known || err != nil {
		t.Errorf("%v %v", known, err)
	}
}

// TestBadJournals checks that an unreadable journal stays on disk. Neither this journal nor a named pipe must prevent
// the recovery of other journals.
func TestBadJournals(t *testing.T) {
	dir := t.TempDir()
	a, b := openTest(t, dir), openTest(t, dir)
	defer b.Close()
	a.flush.Lock()
	a.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w"})
	commit(t, a)
	_ = a.journal.owner.Close()
	journals := filepath.Join(dir, journalDir)
	for name, text := range map[string]string{"00aa" + journalSuffix: "", "00aa.0": "toolhost journal 9\nxx"} {
		if err := os.WriteFile(filepath.Join(journals, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(journals, "00ab"+journalSuffix), 0o600); err != nil {
		t.Fatal(err)
	}
	err := b.Recover()
	if err == nil || !strings.Contains(err.Error(), "its format is unknown") || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("the error is %v", err)
	}
	if _, known, err := b.Session("s"); !known || err != nil {
		t.Errorf("%v %v", known, err)
	}
	if _, err := os.Stat(filepath.Join(journals, "00aa.0")); err != nil {
		t.Error("the unknown journal was removed")
	}
}
