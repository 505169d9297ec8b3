package directory

import (
	"log/slog"
	"strconv"
	"testing"
	"time"
)

// TestRemoved checks that a removed entry stays unknown if the watch reports its earlier revisions late. A new entry is
// known.
func TestRemoved(t *testing.T) {
	d := New(nil, time.Now, slog.New(slog.DiscardHandler))
	d.put("s", &Entry{Revision: 1})
	d.Removed("s", 3)
	for revision := range uint64(4) {
		d.put("s", &Entry{Revision: revision})
		if e := d.Find("s"); e != nil {
			t.Errorf("the revision %d of a removed entry is known: %+v", revision, e)
		}
	}
	d.put("s", &Entry{Revision: 5})
	d.Removed("s", 3)
	if e := d.Find("s"); e == nil || e.Revision != 5 {
		t.Errorf("the new entry is %+v", e)
	}
}

// BenchmarkFind measures the lookup of a session, which each call makes, in a directory of 10 000 sessions.
func BenchmarkFind(b *testing.B) {
	d := New(nil, time.Now, slog.New(slog.DiscardHandler))
	var keys []string
	for i := range 10_000 {
		key := Key("alice", "repo", strconv.Itoa(i))
		keys = append(keys, key)
		d.put(key, &Entry{Owner: "one", Revision: 1})
	}
	for i := 0; b.Loop(); i++ {
		if d.Find(keys[i%len(keys)]) == nil {
			b.Fatal("a session is missing")
		}
	}
}
