package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStore(t *testing.T) {
	s := OpenQuarantine(t.TempDir())
	s.max = 3
	if all, err := s.List(); len(all) != 0 || err != nil { // the directory does not exist yet
		t.Errorf("%v, %v", all, err)
	}
	began := time.Now()
	var kept []QuarantineEntry
	for i := range 5 {
		e := QuarantineEntry{At: began.Add(time.Duration(i) * time.Second), Kind: KindFile, Path: "/p", Content: []byte{byte(i)}, Keys: []string{strings.Repeat("k", i+1)}}
		if err := s.Keep(&e); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // mark an entry as restored, because prune must not delete it first
			e.Restored = began
			if err := s.Update(&e); err != nil {
				t.Fatal(err)
			}
		}
		kept = append(kept, e)
	}
	all, err := s.List()
	if err != nil || len(all) != 3 || all[0].ID != kept[0].ID || all[1].ID != kept[3].ID || all[2].ID != kept[4].ID {
		t.Errorf("%v, %v", all, err)
	}
	if allowed, err := s.Allowed(); err != nil || len(allowed) != 1 || !allowed["k"] {
		t.Errorf("%v, %v", allowed, err)
	}
	if kept[3].Digest() == kept[4].Digest() {
		t.Error("the digest does not depend on the content")
	}
	if _, err := s.Get(kept[1].ID); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFlood checks that many or large new entries do not displace earlier entries or entries of other directories.
func TestFlood(t *testing.T) {
	s := OpenQuarantine(t.TempDir())
	s.max, s.bytes = 20, 100_000
	now := time.Now()
	keep := func(root string, at time.Time, size int) *QuarantineEntry {
		e := &QuarantineEntry{At: at, Kind: KindFile, Root: root, Path: root + "/p/x", Content: make([]byte, size)}
		if err := s.Keep(e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	kept := []*QuarantineEntry{keep("/a", now.Add(-48*time.Hour), 10), keep("/b", now, 10), keep("/a", now.Add(-48*time.Hour), 10)}
	mine := &QuarantineEntry{At: now, Kind: KindFile, Root: "/a", Path: "/a/mine/x"} // an entry of another path in the same hour
	if err := s.Keep(mine); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, mine)
	for range 50 {
		keep("/a", now, 10)
	}
	for range 10 {
		keep("/a", now, 20_000)
	}
	for _, e := range kept {
		if _, err := s.Get(e.ID); err != nil {
			t.Error(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) > 20 || len(all) < 5 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

// TestRawPaths checks that the store keeps a path that JSON cannot represent.
func TestRawPaths(t *testing.T) {
	s := OpenQuarantine(t.TempDir())
	e := &QuarantineEntry{Kind: KindFile, Root: "/\xff", Path: "/\xff/\xfe", Left: "/\xff/\xfd"}
	if err := s.Keep(e); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(e.ID); err != nil || got.Root != e.Root || got.Path != e.Path || got.Left != e.Left {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBrokenEntries(t *testing.T) {
	s := OpenQuarantine(t.TempDir())
	e := QuarantineEntry{Kind: KindFile}
	if err := s.Keep(&e); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0", 12)
	for name, text := range map[string]string{"half": `{"id":`, "another ID": `{"id":"` + e.ID + `"}`} {
		if err := os.WriteFile(s.path(other), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(); err == nil || !strings.Contains(err.Error(), s.path(other)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "..", "../quarantine/" + e.ID, "x", e.ID + "0", "/etc/passwd"} {
		if _, err := s.Get(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := errors.Join(os.Remove(s.path(other)), os.Symlink(filepath.Join("..", "x"), s.path(other))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(other); err == nil {
		t.Error("a link was followed")
	}
}
