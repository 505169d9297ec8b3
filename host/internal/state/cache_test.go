package state

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCache checks that a write by another process invalidates the cache, and that a write by the same process does
// not.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	var handles [2]*DB
	for i := range handles {
		db, err := Open(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		handles[i] = db
	}
	ours, theirs := handles[0], handles[1]
	known := func() (session, state bool) {
		_, session = ours.cache.session("s", ours.version())
		_, state = ours.cache.state(key{"s", "p"}, ours.version())
		return session, state
	}
	expect := func(when string, want bool) {
		t.Helper()
		if session, state := known(); session != want || state != want {
			t.Errorf("%s: the session is known: %v, the state: %v", when, session, state)
		}
	}
	flush := func(db *DB) { // try again, because the flusher can write at the same time
		t.Helper()
		var err error
		for range 100 {
			if err = db.Flush(); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ours.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/a"})
	ours.SavePluginState("s", "p", []byte("one"))
	flush(ours)
	expect("before anything was read", false)
	look := func(cwd, state string) {
		t.Helper()
		s, _, err := ours.Session("s")
		must(err)
		p, err := ours.PluginState("s", "p")
		must(err)
		if s.Cwd != cwd || string(p) != state {
			t.Errorf("%s and %s, want %s and %s", s.Cwd, p, cwd, state)
		}
	}
	look("/w/a", "one")
	expect("after reading", true)
	ours.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/b"})
	ours.SavePluginState("s", "p", []byte("two"))
	ours.AddHistory(Entry{Session: "s", At: time.Now(), Command: "c"})
	flush(ours)
	expect("after our own write", true)
	look("/w/b", "two")
	theirs.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/c"})
	theirs.SavePluginState("s", "p", []byte("three"))
	flush(theirs)
	expect("after another's write", false)
	look("/w/c", "three")

	// Two processes write alternately without reading in between.
	theirs.SavePluginState("s", "p", []byte("four"))
	flush(theirs)
	ours.SaveSession(Session{ID: "s", Workspace: "/w", Cwd: "/w/d"})
	flush(ours)
	expect("after both wrote", false)
	look("/w/d", "four")

	big := make([]byte, maxCachedStates/3)
	for i := range 4 {
		ours.SavePluginState("s", fmt.Sprint(i), big)
	}
	flush(ours)
	if ours.cache.size > maxCachedStates {
		t.Errorf("%d bytes are kept", ours.cache.size)
	}
	look("/w/d", "four")
}

// TestRemovedLog checks that the version is unknown after the log file was removed, and that a new file at the log's
// path is noticed.
func TestRemovedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var w wal
	t.Cleanup(w.close)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v := w.version(path); v != (fileVersion{}) {
		t.Errorf("a missing log has the version %v", v)
	}
	write("one")
	first := w.version(path)
	if first.size != 3 || first.mtime == 0 {
		t.Errorf("the version is %v", first)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if v := w.version(path); v != (fileVersion{}) {
		t.Errorf("a removed log has the version %v", v)
	}
	write("another")
	if v := w.version(path); v.size != 7 {
		t.Errorf("the new log has the version %v", v)
	}
}
