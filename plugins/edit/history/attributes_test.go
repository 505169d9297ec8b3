package history_test

import (
	"testing"

	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/history"
)

// had returns attributes of a file. One attribute, the capability, is valid only for an unchanged content.
func had() *workspace.Attributes {
	return &workspace.Attributes{UID: 7, Extended: map[string][]byte{"user.note": []byte("kept"), workspace.Capability: {1}}}
}

// keeps checks the attributes of a version. If capable is true, the version must also have the attributes
// that depend on the content.
func keeps(t *testing.T, what string, v history.Version, capable bool) {
	t.Helper()
	a := v.Attributes
	if !v.Exists || a == nil || a.UID != 7 || string(a.Extended["user.note"]) != "kept" {
		t.Fatalf("%s: %+v has %+v", what, v, a)
	}
	if got := a.Extended[workspace.Capability] != nil; got != capable {
		t.Errorf("%s: it has capabilities: %t, want %t", what, got, capable)
	}
}

// TestCapabilitiesAreTheContents undoes the removal of a file, and then an earlier change of the file. The
// capabilities of the last content must not apply to the earlier content.
func TestCapabilitiesAreTheContents(t *testing.T) {
	edited, removed := file("/f", "1", "2"), file("/f", "2", "-")
	removed.Before.Attributes = had()
	mode := file("/f", "1", "1")
	for _, c := range []struct {
		name    string
		changes []history.File
		capable bool
	}{
		{"the removal", []history.File{removed}, true},
		{"an edit before it", []history.File{removed, edited}, false},
		{"and a change of the mode", []history.File{removed, edited, mode}, false},
	} {
		var all []*history.Change
		for _, f := range c.changes {
			all = append(all, &history.Change{Files: []history.File{f}})
		}
		net, err := history.Fold(all, false)
		must(t, err)
		keeps(t, c.name, net[0].After, c.capable)
	}
	if removed.Before.Attributes.Extended[workspace.Capability] == nil {
		t.Error("what the history has was changed")
	}
}

// TestCapabilitiesOfRedone undoes the creation and an edit of a file. It checks which attributes each redo would
// restore.
func TestCapabilitiesOfRedone(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	created := change(t, s, "s", file("/f", "-", "1"))
	edited := change(t, s, "s", file("/f", "1", "2"))
	gone := file("/f", "2", "-")
	gone.Before.Attributes = had()
	moved(t, s, history.Undone, []history.File{gone}, edited, created)
	log, err := s.Log(t.Context(), "s", "")
	must(t, err)
	for _, c := range log.Undone {
		keeps(t, c.Title, c.Files[0].After, c.ID == edited.ID)
	}
	net, err := history.Fold(log.Undone, true)
	must(t, err)
	keeps(t, "both", net[0].After, true)
}

// TestAttributesTakeRoomOnce repeatedly undoes and redoes the creation of a file. The file's attributes must be counted
// only once. Otherwise the history would drop other changes.
func TestAttributesTakeRoomOnce(t *testing.T) {
	s := open(t, t.TempDir(), 200_000)
	change(t, s, "s", file("/other", "1", "2"))
	created := change(t, s, "s", file("/f", "-", "1"))
	gone := file("/f", "1", "-")
	gone.Before.Attributes = &workspace.Attributes{Extended: map[string][]byte{"user.note": make([]byte, 20_000)}}
	for range 10 {
		moved(t, s, history.Undone, []history.File{gone}, created)
		moved(t, s, history.Done, []history.File{file("/f", "-", "1")}, created)
	}
	log, err := s.Log(t.Context(), "s", "")
	must(t, err)
	if len(log.Done) != 2 || log.Dropped != 0 {
		t.Errorf("%d changes can be undone, %d were dropped", len(log.Done), log.Dropped)
	}
}
