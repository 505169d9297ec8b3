package records_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"toolhost.dev/host/internal/state"
)

// TestApplied checks that a second process can read the last saved settings of each configuration.
func TestApplied(t *testing.T) {
	dir := t.TempDir()
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got, at, err := db.Applied("c"); got != nil || !at.IsZero() || err != nil {
		t.Errorf("before: %s %v %v", got, at, err)
	}
	before := time.Now()
	save := func(config, digest, content string) error {
		return db.SaveApplied(config, []byte(digest), func() ([]byte, error) { return []byte(content), nil })
	}
	for _, content := range []string{`{"a": 1}`, `{"a": 2}`} {
		if err := save("c", "", content); err != nil { // without a digest, the content is always saved
			t.Fatal(err)
		}
	}
	if err := errors.Join(save("other", "x", `{}`), save("c", "x", `{"a": 3}`)); err != nil {
		t.Fatal(err)
	}
	_, first, err := db.Applied("c")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SaveApplied("c", []byte("x"), func() ([]byte, error) { return nil, errors.New("the content was made again") }); err != nil {
		t.Error(err)
	}
	if got, at, err := db.Applied("c"); string(got) != `{"a": 3}` || !at.After(first) || err != nil {
		t.Errorf("saved again: %s %v, before %v %v", got, at, first, err)
	}
	if err := save("c", "y", `{"a": 2}`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Applied("c"); err == nil {
		t.Error("a closed database answers")
	}
	if save("c", "y", "") == nil {
		t.Error("a closed database keeps")
	}
	if db, err = state.Open(dir, slog.New(slog.DiscardHandler)); err != nil {
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
