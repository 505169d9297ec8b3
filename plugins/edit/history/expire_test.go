package history_test

import (
	"testing"
	"time"

	"toolhost.dev/plugins/edit/history"
)

// TestMaxAge checks that a new process drops the changes that are older than MaxAge, and counts them.
func TestMaxAge(t *testing.T) {
	dir := t.TempDir()
	for _, age := range []time.Duration{0, time.Hour} {
		s := history.Open(dir, 0)
		s.MaxAge = age
		c := &history.Change{Session: "s", At: time.Now().Add(-2 * time.Hour), Tool: "write", Title: "old"}
		if age > 0 {
			log, err := s.Log(t.Context(), "s", "")
			if err != nil || len(log.Done) != 0 || log.Dropped != 1 {
				t.Errorf("%+v, %v", log, err)
			}
			c.At = time.Now()
		}
		if err := s.Begin(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
