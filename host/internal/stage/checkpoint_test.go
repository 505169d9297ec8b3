package stage_test

import (
	"context"
	"encoding/json"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/stage"
)

// checkpoints counts the checkpoints and the undos.
type checkpoints struct{ made, undone int }

func (c *checkpoints) Before(string, string) string {
	c.made++
	return ""
}

func (c *checkpoints) Undo(context.Context, call.Undo) *tool.Result {
	c.undone++
	return &tool.Result{}
}

// TestRolesBeforeCheckpoints checks which calls get a checkpoint, and which ones the host answers. A role of a plugin
// that does not come with the host must not prevent a checkpoint: its plugin can change files in every call. It must
// not make the host change files either, unless the rules judge the tool as one that does.
func TestRolesBeforeCheckpoints(t *testing.T) {
	writes := `{"type":"object","properties":{"file_path":{"type":"string","x-toolhost-path":"write"},"action":{"type":"string"}}}`
	for name, c := range map[string]struct {
		role     tool.Role
		schema   string
		readOnly bool
		bundled  bool
		made     int
		undone   int
	}{
		"bundled jobs":         {role: tool.RoleJobs, bundled: true},
		"bundled ask":          {role: tool.RoleAsk, bundled: true},
		"bundled shell":        {role: tool.RoleShell, bundled: true},
		"jobs of others":       {role: tool.RoleJobs, made: 1},
		"ask of others":        {role: tool.RoleAsk, made: 1},
		"shell of others":      {role: tool.RoleShell, made: 1},
		"branch of others":     {role: tool.RoleBranch, made: 1},
		"read-only undo":       {role: tool.RoleUndo, schema: writes, readOnly: true},
		"undo without a path":  {role: tool.RoleUndo, made: 1},
		"undo that is an edit": {role: tool.RoleUndo, schema: writes, undone: 1},
		"bundled undo":         {role: tool.RoleUndo, schema: writes, bundled: true, undone: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry.New()
			def := tool.Definition{Name: "x", Description: "d", Role: c.role, Input: json.RawMessage(`{"type":"object"}`), Traits: tool.Traits{ReadOnly: c.readOnly}}
			if c.schema != "" {
				def.Input = json.RawMessage(c.schema)
			}
			set := func(string) registry.Settings { return registry.Settings{Bundled: c.bundled} }
			if err := r.Add("p", "", &tool.Description{Name: "p", Tools: []tool.Definition{def}}, false, set); err != nil {
				t.Fatal(err)
			}
			made := new(checkpoints)
			of := &call.Call{
				Request:  call.Request{Session: call.Session{Checkpoints: made}},
				Identity: call.Identity{Tool: r.Find("x")},
				Decision: call.Decision{
					Arguments: map[string]json.RawMessage{"command": json.RawMessage(`"ls"`)},
					Sent:      &tool.Call{Tool: "x", Arguments: json.RawMessage(`{"action":"undo"}`)},
				},
			}
			ran := 0
			stage.Checkpoint(func(s string) string { return s }).Wrap(func(context.Context, *call.Call) *tool.Result {
				ran++
				return &tool.Result{}
			})(t.Context(), of)
			if made.made != c.made || made.undone != c.undone || ran != 1-c.undone {
				t.Errorf("%d checkpoints, %d undone, ran %d times", made.made, made.undone, ran)
			}
		})
	}
}
