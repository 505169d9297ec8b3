package history_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/plugins/edit/history"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func file(path, before, after string) history.File {
	v := func(s string) history.Version {
		if s == "-" {
			return history.Version{}
		}
		return history.Content([]byte(s), 0o644)
	}
	return history.File{Path: path, Before: v(before), After: v(after)}
}

// change records a complete change of a session.
func change(t testing.TB, s *history.Store, session string, files ...history.File) *history.Change {
	t.Helper()
	c := &history.Change{Session: session, Tool: "t", Title: "t " + files[0].Path, Files: files}
	must(t, s.Begin(t.Context(), c))
	must(t, s.Finish(t.Context(), c))
	return c
}

// moved undoes the changes if the target state is Undone. It redoes the changes if the target state is Done.
func moved(t testing.TB, s *history.Store, to history.State, files []history.File, changes ...*history.Change) {
	t.Helper()
	m := &history.Change{Session: changes[0].Session, Files: files, To: to}
	for _, c := range changes {
		m.Moves = append(m.Moves, c.ID)
	}
	must(t, s.Begin(t.Context(), m))
	must(t, s.Finish(t.Context(), m))
}

// ids returns a text with two lists: the ids of the changes that can be undone, and the ids of the changes that can
// be redone.
func ids(t testing.TB, s *history.Store, session, path string) string {
	t.Helper()
	log, err := s.Log(t.Context(), session, path)
	must(t, err)
	var out []string
	for _, c := range log.Done {
		out = append(out, fmt.Sprint(c.ID))
	}
	out = append(out, "|")
	for _, c := range log.Undone {
		out = append(out, fmt.Sprint(c.ID))
	}
	return strings.Join(out, " ")
}

func open(t testing.TB, dir string, limit int64) *history.Store {
	t.Helper()
	s := history.Open(dir, limit)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestHistory(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := open(t, dir, 0)
		a := change(t, s, "s", file("/a", "1", "2"))
		b := change(t, s, "s", file("/a", "2", "3"), file("/b", "-", "x"))
		c := change(t, s, "s", file("/c", "1", "-"))
		change(t, s, "other", file("/a", "3", "4"))
		if got := ids(t, s, "s", ""); got != "3 2 1 |" {
			t.Error(got)
		}
		if got := ids(t, s, "s", "/a"); got != "2 1 |" {
			t.Error(got)
		}
		moved(t, s, history.Undone, []history.File{file("/c", "-", "1")}, c)
		moved(t, s, history.Undone, []history.File{file("/a", "3", "1"), file("/b", "x", "-")}, b, a)
		if got := ids(t, s, "s", ""); got != "| 1 2 3" {
			t.Error(got)
		}
		// The history must still contain the contents that a redo needs.
		for _, text := range []string{"1", "2", "3", "x"} {
			v := history.Content([]byte(text), 0)
			if v.Data = nil; s.Load(t.Context(), &v) != nil || string(v.Data) != text {
				t.Errorf("%q is not there", text)
			}
		}
		moved(t, s, history.Done, []history.File{file("/a", "1", "2")}, a)
		// A change cannot be moved to its current state. A change of another session cannot be moved at all.
		for _, c := range []*history.Change{{Session: "s", Moves: []int64{a.ID}, To: history.Done}, {Session: "other", Moves: []int64{a.ID}, To: history.Undone}, {Session: "s", Moves: []int64{99}, To: history.Undone}} {
			var e *history.MovedError
			if err := s.Begin(t.Context(), c); !errors.As(err, &e) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		// A new change discards the undone changes of its files.
		change(t, s, "s", file("/b", "-", "new"))
		if got := ids(t, s, "s", ""); !strings.HasSuffix(got, " 1 | 3") {
			t.Error(got)
		}
		if n, err := s.Clear(t.Context(), "s", "/a"); n != 1 || err != nil {
			t.Errorf("%d cleared, %v", n, err)
		}
		if n, err := s.Clear(t.Context(), "s", ""); n != 2 || err != nil {
			t.Errorf("%d cleared, %v", n, err)
		}
		if got := ids(t, s, "other", ""); got != "4 |" {
			t.Error(got)
		}
		v := history.Content([]byte("1"), 0)
		if v.Data = nil; s.Load(t.Context(), &v) == nil {
			t.Error("a content that nothing needs is kept")
		}
	}
}

func TestFold(t *testing.T) {
	one := &history.Change{ID: 1, Title: "one", Files: []history.File{file("/a", "1", "2"), file("/b", "-", "x")}}
	two := &history.Change{ID: 2, Title: "two", Files: []history.File{file("/a", "2", "3")}}
	late := &history.Change{ID: 3, Title: "late", Files: []history.File{file("/a", "other", "4")}}
	for _, c := range []struct {
		changes []*history.Change
		again   bool
		want    []history.File
		gap     string
	}{
		{[]*history.Change{two, one}, false, []history.File{file("/a", "3", "1"), file("/b", "x", "-")}, ""},
		{[]*history.Change{one, two}, true, []history.File{file("/a", "1", "3"), file("/b", "-", "x")}, ""},
		{[]*history.Change{late, two}, false, nil, "two"},
		{[]*history.Change{two, late}, true, nil, "late"},
		{nil, false, nil, ""},
	} {
		got, err := history.Fold(c.changes, c.again)
		var gap *history.GapError
		switch {
		case c.gap != "" && (!errors.As(err, &gap) || gap.Change.Title != c.gap || gap.Path != "/a"):
			t.Errorf("%+v", err)
		case c.gap == "" && (err != nil || fmt.Sprint(got) != fmt.Sprint(c.want)):
			t.Errorf("got %v, %v, want %v", got, err, c.want)
		}
	}
}

// TestTheLastStays records a change that fills the history. The history must keep this change and drop all earlier
// changes.
func TestTheLastStays(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := open(t, dir, 100_000)
		change(t, s, "s", file("/f", "1", "2"))
		change(t, s, "s", file("/g", strings.Repeat("x", 100_000), "y"))
		if got := ids(t, s, "s", ""); got != "2 |" {
			t.Error(got)
		}
	}
}

func TestTheOldestMakesRoom(t *testing.T) {
	s := open(t, t.TempDir(), 100_000)
	text := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 30_000) }
	for i := range 9 {
		session := "s"
		if i < 2 {
			session = "early"
		}
		change(t, s, session, file("/f", text(i), text(i+1)))
	}
	if got := ids(t, s, "s", ""); got != "9 8 7 |" {
		t.Error(got)
	}
	for session, want := range map[string]int{"s": 4, "early": 2} {
		if log, err := s.Log(t.Context(), session, ""); err != nil || log.Dropped != want {
			t.Errorf("%s: %d were dropped, %v", session, log.Dropped, err)
		}
	}
	if err := s.Begin(t.Context(), &history.Change{Session: "s", Files: []history.File{file("/g", strings.Repeat("x", 100_001), "y")}}); !errors.Is(err, history.ErrTooLarge) {
		t.Error(err)
	}
	if got := ids(t, s, "s", ""); got != "9 8 7 |" {
		t.Errorf("a change that does not fit cost others: %s", got)
	}
	// Each change counts against the limit, even a change that created a file and therefore has no old content.
	for i := range 400 {
		change(t, s, "s", file(fmt.Sprint("/new", i), "-", "x"))
	}
	if log, err := s.Log(t.Context(), "s", ""); err != nil || len(log.Done) > 100_000/300 || len(log.Done) < 100 {
		t.Errorf("%d changes are kept, %v", len(log.Done), err)
	}
}

// TestSeveralStores uses several stores of the same directory. The history must lose no change, and each store must
// return all changes.
func TestSeveralStores(t *testing.T) {
	dir := t.TempDir()
	const stores, each = 4, 25
	var wg sync.WaitGroup
	for n := range stores {
		s := open(t, dir, 0)
		wg.Go(func() {
			for i := range each {
				c := &history.Change{Session: "s", Tool: "t", Title: "t", Files: []history.File{file(fmt.Sprintf("/%d", n), fmt.Sprint(i), fmt.Sprint(i+1))}}
				if err := errors.Join(s.Begin(context.Background(), c), s.Finish(context.Background(), c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	log, err := open(t, dir, 0).Log(t.Context(), "s", "")
	if err != nil || len(log.Done) != stores*each {
		t.Errorf("%d changes, %v", len(log.Done), err)
	}
}

// TestTornTail truncates the write-ahead log at many positions. The history must still contain every change that is
// complete before that position.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	const count = 6
	for i := range count {
		change(t, s, "s", file("/f", strings.Repeat(fmt.Sprint(i), 3000), strings.Repeat(fmt.Sprint(i+1), 3000)))
	}
	// Copy the files while the store is open. The copy is in the same state as the files of a killed process.
	db, err := os.ReadFile(filepath.Join(dir, "history.db"))
	must(t, err)
	wal, err := os.ReadFile(filepath.Join(dir, "history.db-wal"))
	must(t, err)
	seen := make(map[int]bool)
	for cut := len(wal); cut >= 0; cut -= max(len(wal)/60, 1) {
		torn := t.TempDir()
		must(t, os.WriteFile(filepath.Join(torn, "history.db"), db, 0o600))
		must(t, os.WriteFile(filepath.Join(torn, "history.db-wal"), wal[:cut], 0o600))
		s := history.Open(torn, 0)
		log, err := s.Log(t.Context(), "s", "")
		must(t, err)
		seen[len(log.Done)] = true
		for i, c := range log.Done {
			v := c.Files[0].Before
			if c.ID != int64(len(log.Done)-i) || s.Load(t.Context(), &v) != nil || string(v.Data) != strings.Repeat(fmt.Sprint(c.ID-1), 3000) {
				t.Fatalf("cut at %d: change %d has %.20q", cut, c.ID, v.Data)
			}
		}
		// The history must still be usable.
		change(t, s, "s", file("/f", "a", "b"))
		must(t, s.Close())
	}
	if len(seen) != count+1 {
		t.Errorf("the cuts left histories of %v changes, want each of 0 to %d", seen, count)
	}
}

// TestLargeContents checks that large contents are stored in files, and that the files are removed when the history
// no longer needs them.
func TestLargeContents(t *testing.T) {
	dir := t.TempDir()
	contents := func() []string {
		entries, _ := os.ReadDir(filepath.Join(dir, "contents"))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	s := history.Open(dir, 0)
	large := strings.Repeat("large\n", 50_000)
	first := change(t, s, "a", file("/f", large, "small"))
	change(t, s, "b", file("/g", large, "other"))
	if got := contents(); len(got) != 1 || got[0] != fmt.Sprintf("%x", first.Files[0].Before.Hash) {
		t.Fatalf("%v", got)
	}
	must(t, s.Close())
	s = history.Open(dir, 0)
	log, err := s.Log(t.Context(), "a", "")
	must(t, err)
	v := log.Done[0].Files[0].Before
	must(t, s.Load(t.Context(), &v))
	if string(v.Data) != large {
		t.Errorf("%d bytes", len(v.Data))
	}
	if _, err := s.Clear(t.Context(), "a", ""); err != nil || len(contents()) != 1 {
		t.Errorf("another session needs it still: %v %v", contents(), err)
	}
	if _, err := s.Clear(t.Context(), "b", ""); err != nil || len(contents()) != 0 {
		t.Errorf("left: %v %v", contents(), err)
	}
	// Files of a killed process are removed after some time.
	change(t, s, "a", file("/f", large, "small"))
	must(t, s.Close())
	for _, name := range []string{strings.Repeat("ab", 32), ".new-1", "young"} {
		must(t, os.WriteFile(filepath.Join(dir, "contents", name), nil, 0o600))
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range append(contents(), ".new-1") {
		if name != "young" {
			must(t, os.Chtimes(filepath.Join(dir, "contents", name), old, old))
		}
	}
	s = history.Open(dir, 0)
	log, err = s.Log(t.Context(), "a", "")
	must(t, err)
	v = log.Done[0].Files[0].Before
	if got := contents(); len(got) != 2 || !slices.Contains(got, "young") || s.Load(t.Context(), &v) != nil {
		t.Errorf("%v", got)
	}
	// A damaged or removed content is reported as an error.
	path := filepath.Join(dir, "contents", fmt.Sprintf("%x", v.Hash))
	must(t, os.WriteFile(path, []byte("something else"), 0o600))
	v.Data = nil
	if err := s.Load(t.Context(), &v); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Error(err)
	}
	must(t, os.Remove(path))
	if err := s.Load(t.Context(), &v); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Error(err)
	}
	// Storing the same content again repairs the damaged file.
	change(t, s, "c", file("/h", large, "x"))
	must(t, s.Load(t.Context(), &v))
	must(t, s.Close())
}

// TestNothingStaysStaged checks that no temporary files remain after changes with large contents, whether the
// changes are accepted or refused.
func TestNothingStaysStaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	large := strings.Repeat("x", 100_000)
	staged := func() (n int) {
		names, err := filepath.Glob(filepath.Join(dir, "contents", ".new-*"))
		must(t, err)
		return len(names)
	}
	// A content that occurs twice in a change is stored once.
	c := &history.Change{Session: "s", Files: []history.File{file("/f", large, "y"), file("/g", large, "y")}}
	must(t, s.Stage(c))
	if staged() != 1 {
		t.Errorf("%d contents are staged, not one", staged())
	}
	must(t, s.Begin(t.Context(), c))
	must(t, s.Finish(t.Context(), c))
	if staged() != 0 {
		t.Errorf("%d contents are left of a change that was noted", staged())
	}
	moving := &history.Change{Session: "s", Moves: []int64{4711}, To: history.Undone, Files: []history.File{file("/f", large+"z", "y")}}
	if err := s.Begin(t.Context(), moving); err == nil || staged() != 0 {
		t.Errorf("%d contents are left of a change that was refused: %v", staged(), err)
	}
	if err := s.Stage(&history.Change{Session: "s", Files: []history.File{file("/h", strings.Repeat("x", 1<<20+1), "y")}}); !errors.Is(err, history.ErrTooLarge) || staged() != 0 {
		t.Errorf("%d contents are left of a change that is too large: %v", staged(), err)
	}
	// If another process removes a staged file before Begin, Begin writes the file again.
	again := &history.Change{Session: "s", Files: []history.File{file("/f", large, "w")}}
	must(t, s.Stage(again))
	names, err := filepath.Glob(filepath.Join(dir, "contents", "*"))
	must(t, err)
	for _, name := range names {
		must(t, os.Remove(name))
	}
	must(t, s.Begin(t.Context(), again))
	must(t, s.Finish(t.Context(), again))
	v := again.Files[0].Before
	v.Data = nil
	if err := s.Load(t.Context(), &v); err != nil || string(v.Data) != large {
		t.Errorf("what was noted is not there: %v", err)
	}
}

// TestStageRefused makes storing large contents fail. The error must contain a remedy.
func TestStageRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "contents"), nil, 0o600))
	s := open(t, dir, 0)
	c := &history.Change{Session: "s", Files: []history.File{file("/f", strings.Repeat("x", 100_000), "y")}}
	for what, do := range map[string]func() error{"stage": func() error { return s.Stage(c) }, "begin": func() error { return s.Begin(t.Context(), c) }} {
		if err := do(); err == nil || strings.Count(err.Error(), "cannot be used") != 1 || !strings.Contains(err.Error(), "history.db") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
