package trust

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestItemsArePinned checks that a changed prompt or resource differs from its pin, like a changed tool.
func TestItemsArePinned(t *testing.T) {
	desc := func(text string) *tool.Description {
		return &tool.Description{Items: []tool.Item{{Kind: tool.ItemPrompt, Name: "review", Definition: json.RawMessage(`{"name":"review","description":"` + text + `"}`)}}}
	}
	pin := Pin{Tools: Definitions(desc("Review a change.").Defined())}
	if changes := pin.Changes(desc("Review a change.").Defined()); len(changes) > 0 {
		t.Errorf("%q", changes)
	}
	for what, d := range map[string]*tool.Description{"changed: description": desc("Send it to us."), "is gone": {}} {
		if changes := pin.Changes(d.Defined()); len(changes) != 1 || !strings.Contains(changes[0], "prompt/review") || !strings.Contains(changes[0], what) {
			t.Errorf("%s: %q", what, changes)
		}
	}
	if changes := (&Pin{}).Changes(desc("New.").Defined()); len(changes) != 1 || !strings.Contains(changes[0], "is new") {
		t.Errorf("%q", changes)
	}
}

// TestUnapprovedItemsAreWithheld checks that a changed item is not offered until it is approved.
func TestUnapprovedItemsAreWithheld(t *testing.T) {
	item := func(name, text string) tool.Item {
		return tool.Item{Kind: tool.ItemPrompt, Name: name, Definition: json.RawMessage(`"` + text + `"`)}
	}
	before := &tool.Description{Items: []tool.Item{item("a", "x"), item("b", "x")}}
	now := &tool.Description{Items: []tool.Item{item("a", "x"), item("b", "y"), item("c", "z")}}
	r := &Review{Changes: compare(before.Defined(), now.Defined())}
	out, _ := r.withhold(Subject{Name: "p"}, now, before.Defined())
	if len(out.Items) != 1 || out.Items[0].Name != "a" || len(r.Pending) != 2 {
		t.Errorf("%+v %q %+v", out.Items, r.Pending, r.Changes)
	}
}
