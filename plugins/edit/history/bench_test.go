package history_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"toolhost.dev/plugins/edit/history"
)

// BenchmarkChange measures how long Begin and Finish of one change take.
func BenchmarkChange(b *testing.B) {
	s := history.Open(b.TempDir(), 0)
	defer s.Close()
	for i := 0; b.Loop(); i++ {
		before, after := []byte(fmt.Sprint(i)), sha256.Sum256([]byte(fmt.Sprint(i+1)))
		c := &history.Change{
			Session: "s", Tool: "edit", Title: "edit f.go",
			Files: []history.File{{Path: "/work/f.go", Before: history.Content(before, 0o644), After: history.Version{Exists: true, Hash: after, Mode: 0o644}}},
		}
		if _, err := s.Unfinished(b.Context(), "/work/f.go"); err != nil {
			b.Fatal(err)
		}
		if err := s.Begin(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		if err := s.Finish(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
