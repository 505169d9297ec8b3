package todos

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/todo/list"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

type object = map[string]any

func TestTodo(t *testing.T) {
	h := tooltest.New(t, Plugin(), t.TempDir())
	if res := h.Call("todo", object{}); res.Output != "The list is empty." || string(res.Data) != `{"todos":[],"summary":""}` {
		t.Errorf("%+v", res)
	}
	items := []object{{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress", "priority": "high", "id": "2"}, {"content": "c"}}
	const text = "[x] a\n[~] b (high)\n[ ] c"
	res := h.Call("todo", object{"todos": items})
	if res.Output != text || res.Title != "Tasks: 1 of 3 done, in progress: b" {
		t.Errorf("%+v", res)
	}
	want := []list.Item{{Content: "a", Status: list.Completed}, {Content: "b", Status: list.InProgress, Priority: "high", ID: "2"}, {Content: "c", Status: list.Pending}}
	var d data
	if err := json.Unmarshal(res.Data, &d); err != nil || !slices.Equal(d.Todos, want) {
		t.Errorf("%s %v", res.Data, err)
	}

	// A list with problems changes nothing. The message must contain all problems.
	res = h.Call("todo", object{"todos": []object{{"status": "x"}, {"content": "b", "priority": "y"}}})
	if res.Error == nil || res.Error.Kind != tool.InvalidArguments || !strings.Contains(res.Error.Message, `item 1 has no content; item 1 has the status "x"`) || !strings.Contains(res.Error.Message, `item 2 has the priority "y"`) {
		t.Errorf("%+v", res.Error)
	}
	if res := h.Call("todo", object{}); res.Output != text {
		t.Errorf("%q", res.Output)
	}
	many := slices.Repeat([]object{{"content": "a", "status": "x"}}, 100)
	if res := h.Call("todo", object{"todos": many}); res.Error == nil || strings.Count(res.Error.Message, "item ") != 20 || !strings.Contains(res.Error.Message, "and more") {
		t.Errorf("%+v", res.Error)
	}

	// An empty list removes all tasks.
	if res := h.Call("todo", object{"todos": []object{}}); res.Output != "The list is empty." {
		t.Errorf("%+v", res)
	}
	if res := h.Call("todo", object{}); res.Output != "The list is empty." {
		t.Errorf("%+v", res)
	}
}

// TestLargest checks that the longest permitted list fits into a session's state, even if each character needs six
// bytes in JSON.
func TestLargest(t *testing.T) {
	h := tooltest.New(t, Plugin(), t.TempDir())
	items := slices.Repeat([]object{{"content": "a" + strings.Repeat("\x01", list.MaxContent-1), "status": "pending"}}, list.MaxBytes/list.MaxContent)
	res := h.Call("todo", object{"todos": items})
	if res.Error != nil || len(res.SessionState) == 0 || len(res.SessionState) > 1<<20 {
		t.Errorf("%d bytes, %v", len(res.SessionState), res.Error)
	}
}

func TestUnreadableState(t *testing.T) {
	call := sdk.NewCall(&tool.Call{SessionState: []byte("{")}, nil)
	if _, err := todo(t.Context(), call, args{}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	if res, err := todo(t.Context(), call, args{Todos: []item{{Content: "a"}}}); err != nil || res.Output != "[ ] a" {
		t.Errorf("%v %v", res, err)
	}
}
