package state

import (
	"log/slog"
	"testing"
	"time"
)

// TestApplied checks that a second process can read the last saved settings of each configuration.
func TestApplied(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got, at, err := db.Applied("c"); got != nil || !at.IsZero() || err != nil {
		t.Errorf("before: %s %v %v", got, at, err)
	}
	before := time.Now()
	for _, content := range []string{`{"a": 1}`, `{"a": 2}`} {
		if err := db.SaveApplied("c", []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SaveApplied("other", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Applied("c"); err == nil {
		t.Error("a closed database answers")
	}
	if db.SaveApplied("c", nil) == nil {
		t.Error("a closed database keeps")
	}
	if db, err = Open(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got, _, err := db.Applied("b"); got != nil || err != nil {
		t.Errorf("of another configuration: %s %v", got, err)
	}
	got, at, err := db.Applied("c")
	if string(got) != `{"a": 2}` || at.Before(before) || at.After(time.Now()) || err != nil {
		t.Errorf("%s %v %v", got, at, err)
	}
}
