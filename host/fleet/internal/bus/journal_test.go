package bus_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/testnats"
)

func open(t *testing.T, b *bus.Bus, node string, epoch, opened uint64) (*journal.Log, []journal.Record) {
	t.Helper()
	l, records, err := journal.Open(t.Context(), b, node, "s", epoch, opened)
	if err != nil {
		t.Fatal(err)
	}
	return l, records
}

func appendTo(t *testing.T, l *journal.Log, r journal.Record) {
	t.Helper()
	if err := l.Append(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// TestOldOwnerIsFenced checks that an owner cannot append after a later owner opened the journal. The control disables
// the check of the expected sequence number, and the old owner can then append.
func TestOldOwnerIsFenced(t *testing.T) {
	s := testnats.Server(t, nil)
	one, two := connect(t, s, "one", 0), connect(t, s, "two", 0)
	old, _ := open(t, one, "one", 1, 0)
	appendTo(t, old, journal.Record{Kind: journal.Begun, Call: "a"})
	_, records := open(t, two, "two", 2, 1)
	if len(records) != 2 || records[0].Kind != journal.Epoch || records[1].Call != "a" {
		t.Errorf("the new owner sees %+v", records)
	}
	if err := old.Append(t.Context(), journal.Record{Kind: journal.Begun, Call: "b"}); !errors.Is(err, journal.ErrLost) {
		t.Errorf("the old owner began a call: %v", err)
	}
	if err := old.Append(t.Context(), journal.Record{Kind: journal.Begun, Call: "c"}); !errors.Is(err, journal.ErrLost) {
		t.Errorf("the old owner began a call at its second try: %v", err)
	}
	if _, _, err := journal.Open(t.Context(), one, "one", "s", 2, 1); !errors.Is(err, journal.ErrLost) {
		t.Errorf("two owners in one epoch: %v", err)
	}
	journal.Unguarded = true
	defer func() { journal.Unguarded = false }()
	other, _ := open(t, one, "one", 3, 2)
	_, _ = open(t, two, "two", 4, 3)
	if err := other.Append(t.Context(), journal.Record{Kind: journal.Begun, Call: "d"}); err != nil {
		t.Errorf("without the guard, the append fails, too: %v", err)
	}
}

func TestSnapshotsShortenReplays(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 0)
	l, _ := open(t, b, "one", 1, 0)
	for i := range 3 * journal.SnapshotEvery {
		appendTo(t, l, journal.Record{Kind: journal.Done, Call: fmt.Sprint(i)})
		if l.Due() {
			appendTo(t, l, journal.Record{Kind: journal.Snapshot, Known: []journal.Known{{Call: fmt.Sprint(i), Done: true}}})
		}
	}
	_, records := open(t, b, "one", 2, 1)
	if records[0].Kind != journal.Snapshot || len(records) > journal.SnapshotEvery+2 {
		t.Errorf("the replay has %d records, and begins with a record of the kind %s", len(records), records[0].Kind)
	}
	if last := records[len(records)-1]; last.Call != fmt.Sprint(3*journal.SnapshotEvery-1) {
		t.Errorf("the replay ends with %+v", last)
	}
}

// TestLostRecordsAreNoticed checks that a session is refused if the coordinators lost its last records.
func TestLostRecordsAreNoticed(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 0)
	open(t, b, "one", 1, 0)
	if _, _, err := journal.Open(t.Context(), b, "one", "s", 4, 3); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("the loss of two epochs: %v", err)
	}
	if _, err := b.JS.Publish(t.Context(), "j.bad", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := journal.Open(t.Context(), b, "one", "bad", 2, 1); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("a record that cannot be read: %v", err)
	}
	if _, err := b.JS.Publish(t.Context(), "j.new", []byte(`{"v":99,"k":"epoch","e":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := journal.Open(t.Context(), b, "one", "new", 2, 1); !errors.Is(err, journal.ErrFormat) || !strings.Contains(err.Error(), "99") {
		t.Errorf("a record of a later version: %v", err)
	}
}

func TestFullJournal(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 256<<10)
	l, _ := open(t, b, "one", 1, 0)
	big := journal.Record{Kind: journal.Done, Result: make([]byte, 60<<10)}
	for range 10 {
		if err := l.Append(t.Context(), big); err != nil {
			if !errors.Is(err, journal.ErrFull) {
				t.Fatal(err)
			}
			if l.Failed() != nil {
				t.Error("a full journal ends the session")
			}
			return
		}
	}
	t.Error("the journal is never full")
}

// TestLostConfirmations checks that a record is appended exactly once, even if the server's confirmation comes too
// late.
func TestLostConfirmations(t *testing.T) {
	s := testnats.Server(t, nil)
	p := newProxy(t, s.Addr().String())
	b, err := bus.Connect(t.Context(), bus.Options{Servers: []string{"nats://" + p.address}, Name: "one", Replicas: 1, JournalBytes: 8 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	l, _ := open(t, b, "one", 1, 0)
	for i := range 3 {
		p.silent.Store(true)
		time.AfterFunc(bus.TryTimeout+time.Duration(i)*200*time.Millisecond, func() { p.silent.Store(false) })
		appendTo(t, l, journal.Record{Kind: journal.Begun, Call: fmt.Sprint(i)})
	}
	// An append must fail if another owner has opened the journal in the meantime.
	p.silent.Store(true)
	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), journal.Record{Kind: journal.Begun, Call: "late"}) }()
	time.Sleep(bus.TryTimeout * 3 / 2)
	two, records := open(t, connect(t, s, "two", 0), "two", 2, 1)
	p.silent.Store(false)
	if err := <-done; !errors.Is(err, journal.ErrLost) {
		t.Errorf("the old owner's append: %v", err)
	}
	var calls []string
	for _, r := range records {
		if r.Kind == journal.Begun {
			calls = append(calls, r.Call)
		}
	}
	if fmt.Sprint(calls) != "[0 1 2 late]" {
		t.Errorf("the journal has the calls %v", calls)
	}
	appendTo(t, two, journal.Record{Kind: journal.Begun, Call: "x"})
}

// TestTrim checks that records before the last snapshot are removed, and that a replay does not need them.
func TestTrim(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 0)
	l, _ := open(t, b, "one", 1, 0)
	for i := range 100 {
		appendTo(t, l, journal.Record{Kind: journal.Done, Call: fmt.Sprint(i), Result: make([]byte, 30<<10)}) // more than the journal can hold
		if l.Due() {
			appendTo(t, l, journal.Record{Kind: journal.Snapshot, Known: []journal.Known{{Call: fmt.Sprint(i), Done: true}}})
		}
		for range 2 { // the second trim finds nothing to remove
			if err := l.Trim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := b.Journal.Info(t.Context())
	if err != nil || info.State.Bytes > 3<<20 {
		t.Errorf("the journal has %d bytes: %v", info.State.Bytes, err)
	}
	_, records := open(t, b, "one", 2, 1)
	if records[0].Kind != journal.Snapshot || records[len(records)-1].Call != "99" {
		t.Errorf("the replay has %d records, from %s to %s", len(records), records[0].Kind, records[len(records)-1].Call)
	}
}
