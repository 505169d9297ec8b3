package fleet

import (
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/journal"
)

// TestLargeState checks that state that is too large for the journal is not lost silently: the first result after a
// move names it, once. State that fits is kept, and an older value of lost state is not used.
func TestLargeState(t *testing.T) {
	large, small := make([]byte, maxState), []byte("x")
	record := func(kind journal.Kind, plugins map[string][]byte) journal.Record {
		t.Helper()
		r := journal.Record{Kind: kind, Node: "one"}
		r.State, r.Lost = stateOf(&host.SessionChange{Plugins: plugins, Files: []tool.FileState{{Path: "/f"}}}, nil)
		if len(r.State) >= maxState {
			t.Errorf("a state of %d bytes", len(r.State))
		}
		return r
	}
	first := record(journal.Done, map[string][]byte{"bash": small, "todo": small})
	grown := record(journal.Done, map[string][]byte{"bash": large})
	for _, c := range []struct {
		name      string
		records   []journal.Record
		has, lost string
	}{
		{"state that fits", []journal.Record{first}, "bash todo", ""},
		{"state that grew", []journal.Record{first, grown}, "todo", "bash"},
		{"state that shrank again", []journal.Record{first, grown, record(journal.State, map[string][]byte{"bash": small})}, "bash todo", ""},
		{"a snapshot with large state", []journal.Record{first, record(journal.Snapshot, map[string][]byte{"bash": large, "todo": small})}, "todo", "bash"},
		{"a snapshot after that", []journal.Record{grown, record(journal.Snapshot, map[string][]byte{"bash": small})}, "bash", ""},
		{"several large states", []journal.Record{record(journal.Snapshot, map[string][]byte{"a": large, "b": large, "c": small})}, "c", "a b"},
	} {
		state, lost, err := restored(c.records)
		if err != nil {
			t.Fatal(err)
		}
		var has []string
		for name := range state.Plugins {
			has = append(has, name)
		}
		slices.Sort(has)
		if strings.Join(has, " ") != c.has || strings.Join(lost, " ") != c.lost {
			t.Errorf("%s: the session has %v and lost %v", c.name, has, lost)
		}
		l := &ledger{f: &Fleet{settings: &host.FleetSettings{Node: "two"}}, o: &owned{movedFrom: "one", lost: lost}}
		for _, want := range []bool{true, false} {
			res := &tool.Result{Output: "out"}
			l.note(res)
			if strings.Contains(res.Output, "moved from one to two") != want || strings.Contains(res.Output, "is lost") != (want && c.lost != "") || want && !strings.Contains(res.Output, strings.Join(lost, ", ")) {
				t.Errorf("%s: the note is %q", c.name, res.Output)
			}
		}
	}
}
