// Package todos implements the tool todo, which stores a list of tasks for each session. Package list checks and
// formats the list. The list is part of the session's state, so the plugin itself stores nothing.
package todos

import (
	"context"
	"encoding/json"
	"strings"

	"toolhost.dev/plugins/todo/list"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// args contains the arguments of the tool todo. The schema does not restrict the values, because [list.Check] reports
// all problems at once.
type args struct {
	Todos []item `json:"todos,omitempty" jsonschema:"The whole new list. Omit it to see the list."`
}

type item struct {
	Content  string `json:"content,omitempty"`
	Status   string `json:"status,omitempty" jsonschema:"pending, in_progress, completed or cancelled"`
	Priority string `json:"priority,omitempty" jsonschema:"high, medium or low"`
	ID       string `json:"id,omitempty"`
}

// data is the structured result of the tool todo.
type data struct {
	Todos []list.Item `json:"todos"`
	// Summary is the line that the command "toolhost status" shows. For an empty list, it is empty.
	Summary string `json:"summary"`
}

// Plugin returns the plugin that serves todo.
func Plugin() sdk.Plugin {
	return sdk.Plugin{Name: "todo", Version: "0.1.0", Needs: &sdk.Needs{}, Tools: []sdk.Tool{sdk.NewTool(sdk.Definition{
		Name:           "todo",
		Role:           tool.RolePlan,
		Description:    "Keep a list of tasks: plan work of several steps, and update it as you go.",
		Keywords:       []string{"task", "plan", "checklist", "step", "progress", "done", "track"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{AutoExecute: true, Idempotent: true}, // ReadOnly is not set, because the tool changes the session's state
		StdinParameter: "todos",
		Examples: []string{
			`todo`,
			`todo --todos '[{"content":"Read the code","status":"in_progress"},{"content":"Run the tests","status":"pending"}]'`,
		},
	}, todo)}}
}

func todo(_ context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	if in.Todos == nil {
		return show(call.SessionState)
	}
	items := make([]list.Item, len(in.Todos))
	for i, it := range in.Todos {
		items[i] = list.Item(it)
	}
	if problems := list.Check(items); len(problems) > 0 {
		const most = 20 // maximum number of problems in a message
		more := ""
		if len(problems) > most {
			problems, more = problems[:most], "; and more"
		}
		return nil, sdk.Errorf(tool.InvalidArguments, "The list is unchanged: %s%s. Correct the items and send the whole list again.", strings.Join(problems, "; "), more)
	}
	res := result(items)
	res.SessionState = res.Data
	return res, nil
}

// show returns the list that a session's state contains.
func show(state []byte) (*sdk.Result, error) {
	var d data
	if len(state) > 0 {
		if err := json.Unmarshal(state, &d); err != nil {
			return nil, sdk.Errorf(tool.ExecutionFailed, "The saved list cannot be read: %v. Send the whole list again.", err)
		}
	}
	return result(d.Todos), nil
}

func result(items []list.Item) *sdk.Result {
	if items == nil {
		items = []list.Item{}
	}
	summary := list.Summary(items)
	title := "Tasks"
	if summary != "" {
		title += ": " + summary
	}
	return &sdk.Result{Output: list.Text(items), Title: title, Data: sdk.Data(data{items, summary})}
}
