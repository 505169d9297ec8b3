package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/testnats"
)

// damagedSession makes a session of a node with a journal of two epochs, and returns the journal of its owner.
func damagedSession(t *testing.T, f *Fleet, key string) (*directory.Entry, *journal.Log) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := f.sessions.Create(t.Context(), key, directory.Entry{Owner: f.node(), Incarnation: f.lease.Own().Incarnation, Workspace: "repo", Shared: true, Identity: "east", Session: key})
	ok(err)
	var l *journal.Log
	for epoch := uint64(1); epoch <= 2; epoch++ {
		l, _, err = journal.Open(t.Context(), f.bus, f.node(), key, epoch, epoch-1)
		ok(err)
		for _, call := range []string{"a", "b"} {
			id := fmt.Sprint(call, epoch)
			ok(l.Append(t.Context(), journal.Record{Kind: journal.Begun, At: f.lease.Now(), Call: id, Digest: []byte(id)}))
			ok(l.Append(t.Context(), journal.Record{Kind: journal.Done, At: f.lease.Now(), Call: id, State: []byte(`{"plugins":{"` + id + `":"eA=="}}`)}))
		}
	}
	next := *e
	next.Epoch, next.Opened = 2, 2
	e, err = f.sessions.Replace(t.Context(), key, next)
	ok(err)
	return e, l
}

// TestRepair checks that each kind of damage is repaired: the session keeps what can be read, the next owner can open
// the journal, and the old owner cannot append.
func TestRepair(t *testing.T) {
	f, _ := newTestRecords(t).node(t, "one", "east")
	publish := func(key, record string) {
		t.Helper()
		if _, err := f.bus.JS.Publish(t.Context(), bus.JournalSubject+key, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		damage     func(key string, e *directory.Entry)
		unreadable int
		calls      string
	}{
		"the last record":       {func(key string, _ *directory.Entry) { publish(key, "{") }, 1, "a1 b1 a2 b2"},
		"a record of no format": {func(key string, _ *directory.Entry) { publish(key, "{}") }, 1, "a1 b1 a2 b2"},
		"the last snapshot": {func(key string, _ *directory.Entry) {
			publish(key, `{"v":1,"k":"begun","e":2,"n":"one","c":"c2","b":1}`)
		}, 0, "a1 b1 a2 b2 c2"},
		"a state": {func(key string, _ *directory.Entry) { publish(key, `{"v":1,"k":"state","e":2,"n":"one","s":5}`) }, 0, "a1 b1 a2 b2"},
		"records are missing": {func(key string, e *directory.Entry) {
			next := *e
			next.Epoch, next.Opened = 9, 9
			if _, err := f.sessions.Replace(t.Context(), key, next); err != nil {
				t.Fatal(err)
			}
		}, 0, "a1 b1 a2 b2"},
	} {
		key := strings.ReplaceAll(name, " ", "-")
		e, old := damagedSession(t, f, key)
		c.damage(key, e)
		out, err := f.repair(t.Context(), key)
		if err != nil || out.Unreadable != c.unreadable || out.Calls != len(strings.Fields(c.calls)) || out.Damage == "" || out.Since.IsZero() {
			t.Errorf("%s: %+v %v", name, out, err)
			continue
		}
		now := f.sessions.Find(key)
		if _, err := journal.Check(t.Context(), f.bus, key, now.Opened); err != nil || now.Epoch <= e.Epoch || now.Owner != "one" {
			t.Errorf("%s: the repaired session is %+v: %v", name, now, err)
		}
		if err := old.Append(t.Context(), journal.Record{Kind: journal.Begun, Call: "late"}); !errors.Is(err, journal.ErrLost) {
			t.Errorf("%s: the owner from before the repair began a call: %v", name, err)
		}
		_, records, err := journal.Open(t.Context(), f.bus, "two", key, now.Epoch, now.Opened)
		if err != nil {
			t.Errorf("%s: the next owner: %v", name, err)
			continue
		}
		o := &owned{calls: make(map[string]*earlier)}
		o.remember(records, f.lease.Now())
		if got := strings.Join(o.order, " "); got != c.calls {
			t.Errorf("%s: the session knows the calls %q", name, got)
		}
		state, _, err := restored(records)
		if err != nil || string(state.Plugins["b2"]) != "x" {
			t.Errorf("%s: the state %+v: %v", name, state, err)
		}
	}
}

// TestRepairRefuses checks that only damaged sessions are repaired, and only where nobody uses them.
func TestRepairRefuses(t *testing.T) {
	records := newTestRecords(t)
	f, _ := records.node(t, "one", "east")
	other, _ := records.node(t, "two", "east")
	refuses := func(f *Fleet, key, why string) {
		t.Helper()
		if out, err := f.repair(t.Context(), key); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %+v %v", key, out, err)
		}
	}
	_, l := damagedSession(t, f, "whole")
	before := *f.sessions.Find("whole")
	refuses(f, "whole", "is whole")
	testnats.Eventually(t, "the other node knows the owner", func() bool { return other.lease.Peer("one") != nil })
	refuses(other, "whole", "the node one has the session")
	f.owned["whole"] = &owned{key: "whole", ready: make(chan struct{}), log: l}
	close(f.owned["whole"].ready)
	refuses(f, "whole", "in use on one")
	if now := f.sessions.Find("whole"); now.Revision != before.Revision {
		t.Errorf("a refused repair changed the session: %+v", now)
	}
	damagedSession(t, f, "later")
	if _, err := f.bus.JS.Publish(t.Context(), bus.JournalSubject+"later", []byte(`{"v":99,"k":"begun","e":2,"n":"one"}`)); err != nil {
		t.Fatal(err)
	}
	refuses(f, "later", "upgrade this node")
	if refused := f.damaged(&owned{key: "later", entry: f.sessions.Find("later")}, journal.ErrFormat); strings.Contains(refused.err.Error(), "repair") {
		t.Errorf("a repair is recommended for the records of a later version: %v", refused.err)
	}
}
