package bus_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/testnats"
)

// TestOneOwner checks that if many nodes create or take a session at the same time, exactly one of them succeeds.
func TestOneOwner(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 0)
	d := directory.New(b.Sessions, time.Now, slog.New(slog.DiscardHandler))
	contest := func(try func(node string) bool) (winners int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, node := range []string{"a", "b", "c", "d", "e", "f"} {
			all.Go(func() {
				if try(node) {
					mu.Lock()
					winners++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return winners
	}
	if n := contest(func(node string) bool {
		e, err := d.Create(t.Context(), "s", directory.Entry{Owner: node})
		return err == nil && e.Owner == node
	}); n != 1 {
		t.Errorf("%d nodes created the session", n)
	}
	first := *d.Find("s")
	take := func(node string) bool {
		next := first
		next.Owner, next.Epoch = node, first.Epoch+1
		_, err := d.Replace(t.Context(), "s", next)
		if err != nil && !bus.IsConflict(err) {
			t.Error(err)
		}
		return err == nil
	}
	if n := contest(take); n != 1 {
		t.Errorf("%d nodes took the session", n)
	}
	directory.Unguarded = true
	defer func() { directory.Unguarded = false }()
	if n := contest(take); n < 2 {
		t.Errorf("without the guard, %d nodes took the session", n)
	}
}

func TestWatchedMap(t *testing.T) {
	s := testnats.Server(t, nil)
	one, two := connect(t, s, "one", 0), connect(t, s, "two", 0)
	log := slog.New(slog.DiscardHandler)
	a, b := directory.New(one.Sessions, time.Now, log), directory.New(two.Sessions, time.Now, log)
	go b.Run(t.Context())
	if err := b.Loaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := a.Create(t.Context(), "s", directory.Entry{Owner: "one"})
	if err != nil {
		t.Fatal(err)
	}
	testnats.Eventually(t, "the other node knows", func() bool { return b.Find("s") != nil && b.Find("s").Owner == "one" })
	if err := a.Remove(t.Context(), "s", e); err != nil {
		t.Fatal(err)
	}
	testnats.Eventually(t, "the other node knows", func() bool { return b.Find("s") == nil })
}

// TestRemovedAtOnce checks that a node forgets a removed session before its watch reports the removal. A new session of
// the same name is known.
func TestRemovedAtOnce(t *testing.T) {
	one := connect(t, testnats.Server(t, nil), "one", 0)
	log := slog.New(slog.DiscardHandler)
	d := directory.New(one.Sessions, time.Now, log) // it does not watch yet, so it is behind
	other := directory.New(one.Sessions, time.Now, log)
	first, err := d.Create(t.Context(), "s", directory.Entry{Owner: "one"})
	if err != nil {
		t.Fatal(err)
	}
	last, err := other.Replace(t.Context(), "s", *first)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Remove(t.Context(), "s", last); err != nil {
		t.Fatal(err)
	}
	if other.Find("s") != nil {
		t.Error("the node that removed the session still knows it")
	}
	d.Removed("s", last.Revision)
	if d.Find("s") != nil {
		t.Error("the node that was told still knows the session")
	}
	again, err := other.Create(t.Context(), "s", directory.Entry{Owner: "two"})
	if err != nil {
		t.Fatal(err)
	}
	d.Removed("s", last.Revision) // it concerns the session before
	go d.Run(t.Context())
	testnats.Eventually(t, "the new session is known", func() bool { return d.Find("s") != nil && d.Find("s").Revision == again.Revision })
	d.Removed("s", last.Revision)
	if d.Find("s") == nil {
		t.Error("the new session is forgotten")
	}
}

func TestKeys(t *testing.T) {
	keys := make(map[string]bool)
	for _, k := range [][3]string{{"", "w", "s"}, {"w", "", "s"}, {"", "ws", ""}, {"1:", "", ""}, {"", "1:", ""}, {"", "", "1:"}} {
		keys[directory.Key(k[0], k[1], k[2])] = true
	}
	if len(keys) != 6 {
		t.Errorf("different sessions have %d keys", len(keys))
	}
}
