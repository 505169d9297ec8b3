package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/placement"
	"toolhost.dev/host/fleet/internal/testnats"
)

func TestCheckFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		e      directory.Entry
		shared string
		want   []string // parts of the error; nil means no error
	}{
		{"the same files", directory.Entry{Shared: true, Identity: "east"}, "east", nil},
		{"other files", directory.Entry{Shared: true, Identity: "east"}, "west", []string{`"east"`, `"west"`, "node two", "Use the same shared"}},
		{"files of the node alone", directory.Entry{Shared: true, Identity: "east"}, "", []string{`"east"`, "has no shared", "node two"}},
		{"an entry of an earlier version", directory.Entry{Shared: true}, "west", nil},
		{"an entry of an earlier version, and files of the node alone", directory.Entry{Shared: true}, "", []string{"has no shared"}},
		{"a session that cannot move", directory.Entry{}, "", nil},
		{"a session of a workspace that is shared now", directory.Entry{}, "east", nil},
	} {
		err := placement.CheckFiles(&c.e, "two", c.shared)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %q", c.name, err, part)
			}
		}
	}
}

// TestDrainNamed checks that a drain reports a session that names its node as one that cannot move.
func TestDrainNamed(t *testing.T) {
	one, _ := newTestRecords(t).node(t, "one", "east")
	_, err := one.sessions.Create(t.Context(), "key", directory.Entry{Owner: "one", Workspace: "repo@one", Shared: true, Identity: "east", Session: "named"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := one.drain(t.Context(), Arguments{}); len(out.Local) != 1 || err == nil || !strings.Contains(err.Error(), "--abandon-local") {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := one.drain(t.Context(), Arguments{AbandonLocal: true}); len(out.Local) != 1 || err != nil {
		t.Errorf("with --abandon-local: %+v, %v", out, err)
	}
	if err := one.move(t.Context(), "key", "", 0); err == nil || !strings.Contains(err.Error(), "names the node one") {
		t.Error(err)
	}
}

// TestSettle checks that after an operation on another node, a node knows the effect.
func TestSettle(t *testing.T) {
	r := newTestRecords(t)
	one, _ := r.node(t, "one", "east")
	two, _ := r.node(t, "two", "east")
	testnats.Eventually(t, "one knows two", func() bool { return one.lease.Peer("two") != nil })
	for range 10 {
		for _, operation := range []string{OpDrain, OpUndrain} {
			state := map[string]string{OpDrain: lease.StateDraining, OpUndrain: lease.StateReady}[operation]
			two.lease.Update(func(r *lease.Record) { r.State = state })
			if err := one.settle(t.Context(), operation, Arguments{Node: "two"}, nil, nil); err != nil {
				t.Fatal(err)
			}
			if got := one.lease.Peer("two").State; got != state {
				t.Fatalf("after %s, the state of the node is %s", operation, got)
			}
		}
	}

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := one.settle(short, OpDrain, Arguments{Node: "two"}, nil, nil); err == nil || !strings.Contains(err.Error(), "See toolhost fleet status") {
		t.Errorf("the record does not change: %v", err)
	}
	if err := one.settle(t.Context(), OpDrain, Arguments{Node: "two"}, nil, errors.New("failed")); err != nil {
		t.Errorf("the operation failed: %v", err)
	}

	e, err := two.sessions.Create(t.Context(), "s", directory.Entry{Owner: "two"})
	if err != nil {
		t.Fatal(err)
	}
	testnats.Eventually(t, "one knows the session", func() bool { return one.sessions.Find("s") != nil })
	if err := one.settle(t.Context(), OpRemove, Arguments{Node: "two", Session: "s"}, fmt.Appendf(nil, `{"revision":%d}`, e.Revision), nil); err != nil || one.sessions.Find("s") != nil {
		t.Errorf("a removed session: %+v, %v", one.sessions.Find("s"), err)
	}
}

// TestOtherFiles checks that a session goes only to nodes that have its files, and not to nodes that have a workspace
// of the same name: when it moves, when its node is dead, and when a gateway that does not compare the files sends a
// call.
func TestOtherFiles(t *testing.T) {
	records := newTestRecords(t)
	one, end := records.node(t, "one", "east")
	two, _ := records.node(t, "two", "west")
	three, _ := records.node(t, "three", "")
	testnats.Eventually(t, "the nodes know each other", func() bool {
		return len(one.lease.Peers()) == 3 && len(two.lease.Peers()) == 3 && len(three.lease.Peers()) == 3
	})
	incarnation := one.lease.Own().Incarnation
	for key, identity := range map[string]string{"new": "east", "old": ""} { // earlier versions write no identity
		e, err := one.sessions.Create(t.Context(), key, directory.Entry{Owner: "one", Incarnation: incarnation, Workspace: "repo", Shared: true, Identity: identity, Session: key})
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"", "two", "three"} {
			p, err := one.target(key, e, to)
			if err == nil {
				t.Errorf("%s: the session moves to %s, which has other files", key, p.Node)
			} else if !strings.Contains(err.Error(), `"east"`) || to != "three" && !strings.Contains(err.Error(), `"west"`) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	testnats.Eventually(t, "the other nodes know the sessions", func() bool {
		return two.sessions.Find("new") != nil && two.sessions.Find("old") != nil && three.sessions.Find("new") != nil && three.sessions.Find("old") != nil
	})
	end()
	for _, f := range []*Fleet{two, three} {
		testnats.Eventually(t, "the first node is dead", func() bool { return f.lease.Peer("one").Ended(incarnation) })
		r := &request{f: f, key: "new", wire: hop.Request{Workspace: "repo", Session: "new"}}
		if node, _, err := f.locate(r, ""); err == nil || !strings.Contains(err.Error(), `"east"`) || !strings.Contains(err.Error(), `"west"`) {
			t.Errorf("after the death of its node, the session is placed on %q: %v", node, err)
		}
		own, _, _ := f.lease.Incarnation()
		shared := f.settings.Workspaces[0].Shared
		o := &owned{key: "new", incarnation: own, shared: shared != ""}
		if e, refused := f.claim(t.Context(), o, &incoming{key: "new", wire: &r.wire}, shared); refused == nil {
			t.Errorf("%s takes a session with other files: %+v", f.node(), e)
		} else if refused.reason != absent || !strings.Contains(refused.err.Error(), `"east"`) {
			t.Errorf("%s: %+v", f.node(), refused)
		}
	}
	// The files of an entry by an earlier version are not known, so a node with shared files takes the session as
	// before.
	if node, _, err := two.locate(&request{f: two, key: "old", wire: hop.Request{Workspace: "repo", Session: "old"}}, ""); err != nil || node != "two" {
		t.Errorf("a session of an earlier version is placed on %q: %v", node, err)
	}
	four, _ := records.node(t, "four", "east")
	testnats.Eventually(t, "the new node is known", func() bool { return two.lease.Peer("four") != nil })
	if node, _, err := two.locate(&request{f: two, key: "new", wire: hop.Request{Workspace: "repo", Session: "new"}}, ""); err != nil || node != "four" {
		t.Errorf("with a node that has the files, the session is placed on %q: %v", node, err)
	}
	if _, refused := four.claim(t.Context(), &owned{key: "new", shared: true}, &incoming{key: "new", wire: &hop.Request{Workspace: "repo"}}, "east"); refused != nil {
		t.Errorf("the node with the files is refused: %v", refused.err)
	}
}
