package habit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// taskNames maps the member names that other programs use for a task to the names in the tool todo.
var taskNames = map[string]string{
	"step": "content", "description": "content", "task": "content", "title": "content", "text": "content",
	"state": "status", "activeForm": "", "active_form": "",
}

// taskStates maps status names of other programs to status names of the tool todo.
var taskStates = map[string]string{"done": "completed", "complete": "completed", "canceled": "cancelled",
	"todo": "pending", "not_started": "pending", "doing": "in_progress"}

// tasks converts the elements of a task list. An element can be a string, which has no status.
func tasks(c *call) {
	if merge, ok := c.truth("merge"); ok && merge {
		c.fail("parameter \"merge\" is not supported: send the whole list")
	}
	raw, ok := c.args["todos"]
	if !ok {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(unquoted(raw)), &list) != nil || list == nil {
		return
	}
	out := make([]Args, len(list))
	for i, element := range list {
		var text string
		if json.Unmarshal(element, &text) == nil {
			out[i] = Args{"content": element}
			continue
		}
		var given Args
		if json.Unmarshal(element, &given) != nil || given == nil {
			return // keep the list unchanged, because the tool refuses it with a better message
		}
		out[i] = c.task(given, i+1)
	}
	delete(c.args, "todos")
	c.set("todos", encode(out))
}

// task converts the members of a task. The argument "number" is the position of the task in the list, counted from 1.
func (c *call) task(given Args, number int) Args {
	t := &call{args: make(Args, len(given))}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		to, known := taskNames[name]
		if _, both := given[to]; !known || both && to != "" {
			to = name
		}
		if to != "" {
			t.set(to, given[name])
		}
	}
	for _, p := range t.problems {
		c.fail("task %d: %s", number, p)
	}
	if id, ok := t.args["id"]; ok && len(id) > 0 && id[0] != '"' && string(id) != "null" {
		t.args["id"] = encode(string(id)) // convert a number to a string, because ids are strings
	}
	var status string
	if json.Unmarshal(t.args["status"], &status) == nil && status != "" {
		status = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(status))
		if other, ok := taskStates[status]; ok {
			status = other
		}
		t.args["status"] = encode(status)
	}
	return t.args
}

// encode returns a value as JSON. Every value that the caller passes can be encoded.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
