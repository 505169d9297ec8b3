package state_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/sdk/tool"
)

func open(t *testing.T, dir string) *state.DB {
	t.Helper()
	db, err := state.Open(dir, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func flush(t *testing.T, db *state.DB) {
	t.Helper()
	for {
		err := db.Flush()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "under way") {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func file(path string, n byte) tool.FileState {
	return tool.FileState{Path: path, ModTime: time.Unix(5, int64(n)), Size: int64(n), Hash: [32]byte{n}, Partial: n%2 == 0}
}

func modify(f tool.FileState) []tool.Effect {
	return []tool.Effect{{Operation: tool.OpModify, File: f}}
}

// fill writes at least one record of each kind to the database.
func fill(db *state.DB) {
	db.SaveSession(state.Session{ID: "s", Workspace: "/w", Cwd: "/w/a"})
	db.Apply("s", modify(file("/w/x", 1)))
	db.Apply("s", modify(file("/w/gone", 2)))
	db.Apply("s", []tool.Effect{{Operation: tool.OpDelete, File: file("/w/gone", 2)}})
	db.SavePluginState("s", "bash", []byte{0, 1})
	db.AddHistory(state.Entry{Session: "s", At: time.Unix(7, 0), Command: "a", Tool: "read", Success: true})
	db.AddHistory(state.Entry{Session: "s", At: time.Unix(8, 0), Command: "b"})
}

func filled(t *testing.T, db *state.DB) {
	t.Helper()
	s, ok, err := db.Session("s")
	if err != nil || !ok || s.Workspace != "/w" || s.Cwd != "/w/a" || s.ID != "s" {
		t.Errorf("session %+v %v %v", s, ok, err)
	}
	f, ok, err := db.FileState("s", "/w/x")
	if err != nil || !ok || !reflect.DeepEqual(f, file("/w/x", 1)) {
		t.Errorf("file %+v %v %v", f, ok, err)
	}
	for _, k := range [][2]string{{"s", "/w/gone"}, {"s", "/w/none"}, {"other", "/w/x"}} {
		if _, ok, err := db.FileState(k[0], k[1]); ok || err != nil {
			t.Errorf("%v is known: %v", k, err)
		}
	}
	if b, err := db.PluginState("s", "bash"); err != nil || !bytes.Equal(b, []byte{0, 1}) {
		t.Errorf("plugin state %v %v", b, err)
	}
	if b, err := db.PluginState("s", "none"); b != nil || err != nil {
		t.Errorf("plugin state %v %v", b, err)
	}
	if _, ok, err := db.Session("none"); ok || err != nil {
		t.Errorf("a session that is not there: %v %v", ok, err)
	}
}

func TestAnswersBeforeAndAfterTheWrite(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	fill(db)
	filled(t, db) // the data is still in the pending batch
	if at := db.Began("s"); !at.Equal(time.Unix(7, 0)) {
		t.Errorf("the session began at %v", at)
	}
	flush(t, db)
	filled(t, db) // the data is in the database file
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	filled(t, db)
	h, err := db.History("s", 10)
	want := []state.Entry{{Session: "s", At: time.Unix(7, 0), Command: "a", Tool: "read", Success: true}, {Session: "s", At: time.Unix(8, 0), Command: "b"}}
	if err != nil || !reflect.DeepEqual(h, want) {
		t.Errorf("history %+v %v", h, err)
	}
	if at := db.Began("s"); !at.Equal(time.Unix(7, 0)) || !db.Began("none").IsZero() {
		t.Errorf("the session began at %v", at)
	}
	if h, err := db.History("s", 1); err != nil || len(h) != 1 || h[0].Command != "b" {
		t.Errorf("the last one is %+v %v", h, err)
	}
	if s, err := db.Sessions(10); err != nil || len(s) != 1 || s[0].ID != "s" || s[0].Used.IsZero() {
		t.Errorf("%+v %v", s, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "state.db")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others may read the state: %v %v", st.Mode(), err)
	}
}

func TestCloseWritesWhatIsPending(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	fill(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	filled(t, open(t, dir))
}

func TestInMemory(t *testing.T) {
	db, err := state.OpenInMemory(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(db)
	flush(t, db)
	filled(t, db)
	db.SaveSession(state.Session{ID: "s", Workspace: "/w", Cwd: "/new"})
	flush(t, db)
	if s, _, _ := db.Session("s"); s.Cwd != "/new" || db.Path() != "" {
		t.Errorf("%+v", s)
	}
}

// TestTwoHandles checks that two processes that write alternately both read the newest write, whichever process made
// it.
func TestTwoHandles(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	for i := range 30 {
		writer, reader := a, b
		if i%2 == 1 {
			writer, reader = b, a
		}
		cwd := fmt.Sprint("/", i)
		writer.SaveSession(state.Session{ID: "s", Cwd: cwd})
		writer.Apply("s", modify(file("/f", byte(i))))
		flush(t, writer)
		for name, db := range map[string]*state.DB{"writer": writer, "reader": reader} {
			if s, _, err := db.Session("s"); err != nil || s.Cwd != cwd {
				t.Errorf("%d: the %s is in %q: %v", i, name, s.Cwd, err)
			}
			if f, _, err := db.FileState("s", "/f"); err != nil || f.Size != int64(i) {
				t.Errorf("%d: the %s knows %d: %v", i, name, f.Size, err)
			}
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	handles := []*state.DB{open(t, dir), open(t, dir), open(t, dir)}
	var wg sync.WaitGroup
	for g := range 9 {
		db := handles[g%3]
		wg.Go(func() {
			session := fmt.Sprint("s", g)
			for i := range 50 {
				db.SaveSession(state.Session{ID: session, Cwd: fmt.Sprint(i)})
				db.Apply(session, modify(file(fmt.Sprint("/", i%5), byte(i))))
				db.SavePluginState(session, "p", []byte{byte(i)})
				db.AddHistory(state.Entry{Session: session, Command: fmt.Sprint(i)})
				if s, ok, err := db.Session(session); err != nil || !ok || s.Cwd != fmt.Sprint(i) {
					t.Errorf("%s: own write %d reads as %+v %v", session, i, s, err)
				}
				if b, err := db.PluginState(session, "p"); err != nil || b[0] != byte(i) {
					t.Errorf("%s: %v %v", session, b, err)
				}
			}
		})
	}
	wg.Wait()
	for _, db := range handles {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	db := open(t, dir)
	for g := range 9 {
		session := fmt.Sprint("s", g)
		if s, ok, err := db.Session(session); err != nil || !ok || s.Cwd != "49" {
			t.Errorf("%+v %v", s, err)
		}
		h, err := db.History(session, 100)
		if err != nil || len(h) != 50 {
			t.Fatalf("%d entries of history, %v", len(h), err)
		}
		for i, e := range h {
			if e.Command != fmt.Sprint(i) {
				t.Errorf("entry %d is %s", i, e.Command)
			}
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	db := open(t, t.TempDir())
	for i := range state.MaxHistory + 50 {
		db.AddHistory(state.Entry{Session: "s", Command: fmt.Sprint(i)})
	}
	db.AddHistory(state.Entry{Session: "other", Command: "x"})
	flush(t, db)
	h, err := db.History("s", 10_000)
	if err != nil || len(h) != state.MaxHistory || h[0].Command != "50" {
		t.Errorf("%d entries, %v", len(h), err)
	}
	if h, _ := db.History("other", 10); len(h) != 1 {
		t.Errorf("another session lost its history: %v", h)
	}
}

// TestFailedWritesAreKept checks that failed writes stay pending and that reads return them. A later flush must write
// them.
func TestFailedWritesAreKept(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	other, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Exec(`ALTER TABLE sessions RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	fill(db)
	for db.Flush() == nil { // try again, because the background flusher can write the entries first
		db.AddHistory(state.Entry{Session: "s"})
	}
	db.Apply("s", modify(file("/w/x", 1)))
	if s, ok, err := db.Session("s"); err != nil || !ok || s.Cwd != "/w/a" {
		t.Errorf("%+v %v %v", s, ok, err)
	}
	if _, err := other.Exec(`ALTER TABLE away RENAME TO sessions`); err != nil {
		t.Fatal(err)
	}
	flush(t, db)
	filled(t, open(t, dir))
}

func TestUnusableDatabases(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(dir string) error
		want    []string
	}{
		"corrupt": {func(dir string) error {
			return os.WriteFile(dir+"/state.db", bytes.Repeat([]byte("no database "), 1000), 0o600)
		}, []string{"state.db cannot be used", "not a database", "--state"}},
		"cut off":   {truncated, []string{"state.db cannot be used", "--state"}},
		"directory": {func(dir string) error { return os.Mkdir(dir+"/state.db", 0o700) }, []string{"state.db cannot be used", "is a directory"}},
		"later": {func(dir string) error {
			db, err := sql.Open("sqlite", dir+"/state.db")
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec(`PRAGMA user_version = 99`)
			return err
		}, []string{"made by a later version: it has layout 99"}},
		"dangling link": {func(dir string) error { return os.Symlink("/nonexistent/db", dir+"/state.db") }, []string{"state.db cannot be used", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tc.prepare(dir); err != nil {
				t.Fatal(err)
			}
			db, err := state.Open(dir, slog.New(slog.DiscardHandler))
			if err == nil {
				db.Close()
				t.Fatal("it opens")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("it does not say %q: %v", w, err)
				}
			}
		})
	}
	f := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Open(f+"/sub", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "state directory cannot be created") {
		t.Error(err)
	}
}

// truncated shortens the database file to one and a half pages.
func truncated(dir string) error {
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	fill(db)
	if err := db.Close(); err != nil {
		return err
	}
	return os.Truncate(dir+"/state.db", 6000)
}

func TestOddDirectoryNames(t *testing.T) {
	for _, name := range []string{"a b", "a?b", "a#b", "a%20b", "a%b", "ä", "a&mode=memory", "a'b", "a;b"} {
		dir := filepath.Join(t.TempDir(), name)
		db := open(t, dir)
		fill(db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		filled(t, open(t, dir))
		if st, err := os.Stat(filepath.Join(dir, "state.db")); err != nil || st.Size() == 0 {
			t.Errorf("%q: the database is somewhere else: %v", name, err)
		}
	}
}

// TestKilledWriter kills a process that writes to the database. The database must stay intact and contain every write
// that the process reported as finished.
func TestKilledWriter(t *testing.T) {
	if dir := os.Getenv("STATE_TEST_WRITER"); dir != "" {
		write(dir)
	}
	dir := t.TempDir()
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "STATE_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in, last := bufio.NewScanner(out), ""
		for n := 0; n < 20 && in.Scan(); n++ {
			last = in.Text()
		}
		_ = cmd.Process.Kill()
		for in.Scan() { // lines that the process printed before its end
			if strings.HasPrefix(in.Text(), "written ") {
				last = in.Text()
			}
		}
		_ = cmd.Wait()
		db := open(t, dir)
		var told, found int
		if _, err := fmt.Sscanf(last, "written %d", &told); err != nil {
			t.Fatalf("the writer said %q", last)
		}
		s, ok, err := db.Session("s")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, err := fmt.Sscanf(s.Cwd, "/%d", &found); err != nil || found < told {
			t.Errorf("it was told that %d is written, and finds %s", told, s.Cwd)
		}
		f, _, err := db.FileState("s", "/f")
		if err != nil || f.Size != int64(found) && f.Size != int64(found)-1 {
			// The process can be killed between the two writes. Therefore the file state can be one round older.
			t.Errorf("the session is of %d, and the file of %d: %v", found, f.Size, err)
		}
		db.Close()
	}
}

func write(dir string) {
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	start := 0
	if s, ok, _ := db.Session("s"); ok {
		_, _ = fmt.Sscanf(s.Cwd, "/%d", &start)
	}
	for i := start + 1; ; i++ {
		f := file("/f", 0)
		f.Size = int64(i)
		for {
			db.SaveSession(state.Session{ID: "s", Cwd: fmt.Sprint("/", i)})
			db.Apply("s", modify(f))
			if db.Flush() == nil {
				break
			}
		}
		fmt.Println("written", i)
	}
}

func TestBinariesAndDescriptions(t *testing.T) {
	db := open(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "bin")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := db.BinaryHash(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := db.BinaryHash(path); err != nil || again != first {
		t.Errorf("%x %v", again, err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// Write a text of equal length and restore the modification time, so that only the change time differs.
	if err := os.WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if second, err := db.BinaryHash(path); err != nil || second == first {
		t.Errorf("a changed binary has the old hash: %v", err)
	}
	if _, err := db.BinaryHash(filepath.Dir(path)); err == nil {
		t.Error("a directory has a hash")
	}
	if _, err := db.BinaryHash(path + "none"); err == nil {
		t.Error("no file has a hash")
	}
	if k, err := db.Description(first); k != nil || err != nil {
		t.Errorf("%v %v", k, err)
	}
	want := &tool.Description{Name: "p", Tools: []tool.Definition{{Name: "t", Input: []byte(`{}`), DefaultTimeout: -time.Millisecond}}}
	if err := db.SaveDescription(first, want, "1"); err != nil {
		t.Fatal(err)
	}
	sum, _, err := records.SumOf(want.Defined())
	if err != nil {
		t.Fatal(err)
	}
	if k, err := db.Description(first); err != nil || k.CheckedBy != "1" || k.Definitions != sum || !reflect.DeepEqual(k.Description, want) {
		t.Errorf("%+v %v", k, err)
	}
	many := [][32]byte{first}
	for i := range 500 { // more than one query
		many = append(many, [32]byte{byte(i), byte(i >> 8), 1})
	}
	if err := db.SaveDescription(many[500], want, ""); err != nil {
		t.Fatal(err)
	}
	if all, err := db.Descriptions(many...); err != nil || len(all) != 2 || all[first] == nil || all[many[500]] == nil || all[many[500]].CheckedBy != "" {
		t.Errorf("%v %v", all, err)
	}
	if all, err := db.Descriptions(); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	if why, _, err := db.Failure(first); why != "" || err != nil {
		t.Errorf("%q %v", why, err)
	}
	if err := db.SaveFailure(first, "no"); err != nil {
		t.Fatal(err)
	}
	if why, at, err := db.Failure(first); why != "no" || at.IsZero() || err != nil {
		t.Errorf("%q %v %v", why, at, err)
	}
}

// TestForgotten checks that old unused sessions and configurations are deleted with all their data. A session that is
// in use must not be deleted, however old it is.
func TestForgotten(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for _, id := range []string{"idle", "busy"} {
		db.SaveSession(state.Session{ID: id, Workspace: "/w", Cwd: "/w"})
		db.Apply(id, modify(file("/w/x", 1)))
		db.AddHistory(state.Entry{Session: id, At: time.Now().AddDate(-1, 0, 0), Command: "then", Tool: "t"})
		if err := db.Remember(state.Answer{Scope: state.ScopeSession, Owner: id, Kind: "k", Tool: "t", Subject: "s", Allow: true, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	db.AddHistory(state.Entry{Session: "busy", At: time.Now(), Command: "now", Tool: "t"})
	for _, config := range []string{"idle", "busy"} {
		if err := db.SaveApplied(config, nil, func() ([]byte, error) { return []byte("{}"), nil }); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec(`UPDATE sessions SET used_ns = ?`, time.Now().AddDate(-1, 0, 0).UnixNano()); err != nil {
		t.Fatal(err)
	}
	for config, days := range map[string]int{"idle": 91, "busy": 89} {
		if _, err := raw.Exec(`UPDATE applied_uses SET at_ns = ? WHERE config = ?`, time.Now().AddDate(0, 0, -days).UnixNano(), config); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	db.AddHistory(state.Entry{Session: "busy", At: time.Now(), Command: "again", Tool: "t"})
	flush(t, db)
	for id, want := range map[string]bool{"idle": false, "busy": true} {
		_, known, err := db.Session(id)
		if err != nil || known != want {
			t.Errorf("%s is known: %v %v", id, known, err)
		}
		if _, known, err := db.FileState(id, "/w/x"); err != nil || known != want {
			t.Errorf("%s knows the file: %v %v", id, known, err)
		}
		if _, known, err := db.Recall(id, "/w", "k", "t", "s"); err != nil || known != want {
			t.Errorf("%s has an answer: %v %v", id, known, err)
		}
		if applied, _, err := db.Applied(id); err != nil || (applied != nil) != want {
			t.Errorf("what %s used is known: %s %v", id, applied, err)
		}
	}
}

// hunters masks two secrets in the same way.
var hunters = state.Masking{Command: func(s string) string { return strings.NewReplacer("hunter2", "***", "hunter3", "***").Replace(s) }}

// TestAnswersOfAnotherProcess checks that only the process that got an answer about a text with a secret knows it.
// Otherwise the database would show which secret it was.
func TestAnswersOfAnotherProcess(t *testing.T) {
	const variable = "ANSWERS_OF_ANOTHER_PROCESS"
	known := func(dir string) (out []bool) {
		db := open(t, dir)
		db.Mask(hunters)
		for _, subject := range []string{"mysql -phunter2", "mysql"} {
			_, is, err := db.Recall("s", "/w", "bash", "bash", subject)
			if err != nil {
				t.Error(err)
			}
			out = append(out, is)
		}
		return out
	}
	if dir := os.Getenv(variable); dir != "" {
		if is := known(dir); is[0] || !is[1] {
			t.Errorf("another process knows the answers: %v", is)
		}
		return
	}
	dir := t.TempDir()
	db := open(t, dir)
	db.Mask(hunters)
	for _, subject := range []string{"mysql -phunter2", "mysql"} {
		if err := db.Remember(state.Answer{Scope: state.ScopeWorkspace, Owner: "/w", Kind: "bash", Tool: "bash", Subject: subject, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if is := known(dir); !is[0] || !is[1] {
		t.Errorf("this process knows the answers: %v", is)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") // #nosec G204 G702 -- this test
	c.Env = append(os.Environ(), variable+"="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAnswersWithSecrets checks an answer whose subject contains a secret. The secret must not be written to the disk,
// and the answer must end like any other.
func TestAnswersWithSecrets(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	db.Mask(hunters)
	a := state.Answer{Scope: state.ScopeSession, Owner: "s", Kind: "bash", Tool: "bash", Subject: "mysql -phunter2", Allow: true, At: time.Now()}
	if err := db.Remember(a); err != nil {
		t.Fatal(err)
	}
	if got, known, err := db.Recall("s", "/w", "bash", "bash", a.Subject); !got.Allow || !known || err != nil {
		t.Error(got, known, err)
	}
	if _, known, _ := db.Recall("other", "/w", "bash", "bash", a.Subject); known {
		t.Error("another session knows the answer")
	}
	a.Scope, a.Owner, a.Allow = state.ScopeWorkspace, "/w", false
	if err := db.Remember(a); err != nil {
		t.Fatal(err)
	}
	if got, known, _ := db.Recall("s", "/w", "bash", "bash", a.Subject); got.Allow || !known {
		t.Error("a denial does not take precedence")
	}
	for _, other := range []string{"mysql -phunter2 other", "mysql -phunter3"} {
		if _, known, _ := db.Recall("s", "/w", "bash", "bash", other); known {
			t.Errorf("%s is known, too", other)
		}
	}
	all, err := db.Answers()
	if err != nil || len(all) != 2 || strings.Contains(fmt.Sprint(all), "hunter2") || !strings.HasPrefix(all[0].Subject, "mysql -p*** #") {
		t.Fatal(all, err)
	}
	for _, listed := range all { // the operator revokes answers in another process
		if _, known, _ := db.Recall("s", "/w", "bash", "bash", listed.Subject); known {
			t.Errorf("the listed subject %q can be used", listed.Subject)
		}
	}
	if n, err := db.Revoke(0); err != nil || n != 2 {
		t.Error(n, err)
	}
	if _, known, _ := db.Recall("s", "/w", "bash", "bash", "mysql -phunter2"); known {
		t.Error("a revoked answer is known")
	}
	a.Scope, a.Owner, a.At = state.ScopeSession, "s", time.Now().Add(-25*time.Hour)
	if err := db.Remember(a); err != nil {
		t.Fatal(err)
	}
	if _, known, _ := db.Recall("s", "/w", "bash", "bash", a.Subject); known {
		t.Error("an answer for a session holds for more than a day")
	}
}

// TestAnswersForASessionEnd checks that an answer for a session holds for a day, and one for a workspace until it is
// revoked.
func TestAnswersForASessionEnd(t *testing.T) {
	db := open(t, t.TempDir())
	for scope, owner := range map[string]string{state.ScopeSession: "s", state.ScopeWorkspace: "/w"} {
		for _, age := range []time.Duration{23 * time.Hour, 25 * time.Hour} {
			subject := scope + age.String()
			if err := db.Remember(state.Answer{Scope: scope, Owner: owner, Kind: "bash", Tool: "bash", Subject: subject, Allow: true, At: time.Now().Add(-age)}); err != nil {
				t.Fatal(err)
			}
			if _, known, err := db.Recall("s", "/w", "bash", "bash", subject); err != nil || known != (scope == state.ScopeWorkspace || age < 24*time.Hour) {
				t.Errorf("an answer for the %s of %v ago: known %t, %v", scope, age, known, err)
			}
		}
	}
	if all, err := db.Answers(); err != nil || len(all) != 3 {
		t.Errorf("%d answers are listed, want the 3 that hold: %v", len(all), err)
	}
}

// TestRemovedPluginState checks a change that removes the state of one plugin and sets the state of another. Both must
// be written to the database.
func TestRemovedPluginState(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	fill(db)
	flush(t, db)
	db.ApplyChange("s", state.Change{Plugins: map[string][]byte{"bash": nil, "todo": {7}}})
	for range 2 {
		if b, err := db.PluginState("s", "bash"); b != nil || err != nil {
			t.Errorf("the state of bash: %v %v", b, err)
		}
		if b, err := db.PluginState("s", "todo"); !bytes.Equal(b, []byte{7}) || err != nil {
			t.Errorf("the state of todo: %v %v", b, err)
		}
		flush(t, db)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, _, err := open(t, dir).Snapshot("s"); err != nil || len(s.Plugins) != 1 {
		t.Errorf("%+v %v", s.Plugins, err)
	}
}

// TestSessionsWithoutPreviews checks that the sessions of previews are not listed, and those with similar ids are.
func TestSessionsWithoutPreviews(t *testing.T) {
	db := open(t, t.TempDir())
	want := []string{"a", "a+b", "a+preview-0123456789abcdef+", "a+preview-of-mine", "preview-0123456789abcdef"}
	for _, id := range append([]string{"a+preview-0123456789abcdef", "a+b+preview-0123456789abcdef"}, want...) {
		db.SaveSession(state.Session{ID: id, Workspace: "/w", Cwd: "/w"})
	}
	flush(t, db)
	list, err := db.Sessions(10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, s.ID)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the sessions are %q, want %q", got, want)
	}
}
