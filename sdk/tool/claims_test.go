package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// describing returns a description without a fault: an edit, a search that replaces a program, and a history.
func describing() *tool.Description {
	return &tool.Description{
		Name: "own", Version: "1.0.0",
		ConfigSchema: json.RawMessage(`{"type":"object","properties":{"age":{"type":"string"},"limit":{"type":"integer"}}}`),
		Keeps:        []tool.Kept{{Kind: tool.KeptUndo, Files: []string{"history.db*"}, Age: "age"}, {Kind: tool.KeptOutput}},
		Tools: []tool.Definition{
			{Name: "change", Description: "x", Role: tool.RoleEdit, Input: json.RawMessage(`{"type":"object","properties":{"file_path":{"type":"string","x-toolhost-path":"write"},
				"old_string":{"type":"string"},"new_string":{"type":"string"}}}`)},
			{
				Name: "grep", Description: "x", Role: tool.RoleSearch,
				Input: json.RawMessage(`{"type":"object","required":["pattern"],"properties":{"pattern":{"type":"string"},"path":{"type":"string","x-toolhost-path":"read"},"context":{"type":"integer"}}}`),
				Program: &tool.Program{
					Operands: 2, First: "pattern", Otherwise: "context=0", Number: "C", Others: []string{"P"}, Operand: tool.OperandAny,
					Options: map[string]tool.ProgramOption{"C": {Argument: "context=", Value: true}, "r": {}},
				},
			},
		},
	}
}

// TestShares checks that a tool that describes no program keeps the program that hosts knew by its name.
func TestShares(t *testing.T) {
	own := &tool.Program{Operands: 5}
	for name, want := range map[string]int{"grep": 2, "bash": 0, "read": 0, "ls": -1} {
		d := tool.Definition{Name: name}
		if p := d.Shares(); (p == nil) != (want < 0) || p != nil && p.Operands != want {
			t.Errorf("%s: %+v", name, p)
		}
		if d.Program = own; d.Shares() != own {
			t.Errorf("%s: not its own program", name)
		}
	}
}

// TestClaims checks that each rule about roles, programs and kept files finds a description with one fault.
func TestClaims(t *testing.T) {
	if bad := describing().CheckClaims(); bad != nil {
		t.Errorf("without a fault: %v", bad)
	}
	for want, fault := range map[string]func(d *tool.Description, edit, search *tool.Definition){
		`unknown role "editor"`:               func(_ *tool.Description, edit, _ *tool.Definition) { edit.Role = "editor" },
		"and the tool is read_only":           func(_ *tool.Description, edit, _ *tool.Definition) { edit.Traits.ReadOnly = true },
		`needs the parameter "content"`:       func(_ *tool.Description, edit, _ *tool.Definition) { edit.Role = tool.RoleWrite },
		`with "x-toolhost-path": "read"`:      func(_ *tool.Description, edit, _ *tool.Definition) { edit.Role = tool.RoleRead },
		`has the role "edit", too`:            func(d *tool.Description, edit, _ *tool.Definition) { d.Tools = append(d.Tools, *edit) },
		`first operand of the program sets`:   func(_ *tool.Description, _, s *tool.Definition) { s.Program.First = "text" },
		`"otherwise" of the program sets "x"`: func(_ *tool.Description, _, s *tool.Definition) { s.Program.Otherwise = "x=1" },
		"is a builtin of the shell":           func(_ *tool.Description, _, s *tool.Definition) { s.Name = "cd" },
		"-1 operands":                         func(_ *tool.Description, _, s *tool.Definition) { s.Program.Operands = -1 },
		`unknown form "file"`:                 func(_ *tool.Description, _, s *tool.Definition) { s.Program.Operand = "file" },
		`stands for the option "A"`:           func(_ *tool.Description, _, s *tool.Definition) { s.Program.Number = "A" },
		`option "i" of the program sets "case"`: func(_ *tool.Description, _, s *tool.Definition) {
			s.Program.Options["i"] = tool.ProgramOption{Argument: "case=false"}
		},
		`"-r" is not the name`: func(_ *tool.Description, _, s *tool.Definition) { s.Program.Options["-r"] = tool.ProgramOption{} },
		"a value and no argument": func(_ *tool.Description, _, s *tool.Definition) {
			s.Program.Options["f"] = tool.ProgramOption{Value: true}
		},
		"not of the form": func(_ *tool.Description, _, s *tool.Definition) {
			s.Program.Options["f"] = tool.ProgramOption{Argument: "context"}
		},
		`is also in "others"`:      func(_ *tool.Description, _, s *tool.Definition) { s.Program.Options["P"] = tool.ProgramOption{} },
		`unknown kind "history"`:   func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Kind = "history" },
		"no attribute of the conf": func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Age = "days" },
		"without a configuration":  func(d *tool.Description, _, _ *tool.Definition) { d.ConfigSchema = nil },
		`"limit" is no string`:     func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Age = "limit" },
		`"../other" is not a glob`: func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Files = []string{"../other"} },
		`"[" is not a glob`:        func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Files = []string{"["} },
		`".." is not a glob`:       func(d *tool.Description, _, _ *tool.Definition) { d.Keeps[0].Files = []string{".."} },
	} {
		d := describing()
		fault(d, &d.Tools[0], &d.Tools[1])
		if want == "without a configuration" {
			want = "no attribute of the configuration"
		}
		if bad := d.CheckClaims(); len(bad) != 1 || !strings.Contains(bad[0].Error(), want) {
			t.Errorf("%s: %v", want, bad)
		}
	}
}
