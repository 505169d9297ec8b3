package registry_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

func TestCompare(t *testing.T) {
	def := func(properties, rest string) tool.Definition {
		return tool.Definition{Name: "t", Description: "d", Input: json.RawMessage(`{"type":"object","properties":{` + properties + `}` + rest + `}`)}
	}
	closed := `,"additionalProperties":false`
	read := func(d tool.Definition, f func(*tool.Traits)) tool.Definition {
		f(&d.Traits)
		return d
	}
	claims := func(role tool.Role, program *tool.Program) tool.Definition {
		d := def(`"a":{"type":"string"}`, "")
		d.Role, d.Program = role, program
		return d
	}
	a, b := `"a":{"type":"string"}`, `"b":{"type":"integer"}`
	for name, tc := range map[string]struct {
		from, to tool.Definition
		want     string
	}{
		"nothing":               {def(a, ""), def(a, ""), "[]"},
		"an optional parameter": {def(a, closed), def(a+","+b, closed), "[t: the parameter b is new false]"},
		"one that is required":  {def(a, closed), def(a+","+b, closed+`,"required":["a","b"]`), "[t: the parameter a is now required true t: the new parameter b is required true]"},
		"one in the middle":     {def(a, closed), def(b+","+a, closed), "[t: the parameter b is new false t: the order of the parameters changed from a to b true]"},
		"one that is gone":      {def(a+","+b, closed), def(a, closed), "[t: the parameter b was removed true]"},
		"another type":          {def(a, ""), def(`"a":{"type":"integer"}`, ""), "[t: the type of the parameter a changed from string to integer true]"},
		"a wider type":          {def(b, ""), def(`"b":{"type":"number"}`, ""), "[t: details of the parameters changed false]"},
		"any type":              {def(b, ""), def(`"b":{}`, ""), "[t: details of the parameters changed false]"},
		"fewer values":          {def(`"a":{"enum":["x","y"]}`, ""), def(`"a":{"enum":["x"]}`, ""), "[t: the parameter a now accepts only x true]"},
		"more values":           {def(`"a":{"enum":["x"]}`, ""), def(`"a":{"enum":["x","y"]}`, ""), "[t: details of the parameters changed false]"},
		"no check of its path":  {def(`"a":{"type":"string","x-toolhost-path":"write"}`, ""), def(a, ""), `[t: the path access of the parameter a changed from "write" to "" true]`},
		"it writes now":         {read(def(a, ""), func(t *tool.Traits) { t.ReadOnly = true }), def(a, ""), "[t: the tool is no longer read_only true]"},
		"it only reads now":     {def(a, ""), read(def(a, ""), func(t *tool.Traits) { t.ReadOnly = true }), "[t: the tool is now read_only false]"},
		"nobody is asked":       {read(def(a, ""), func(t *tool.Traits) { t.Dangerous = true }), def(a, ""), "[t: the tool is no longer dangerous true]"},
		"another name":          {def(a, ""), func() tool.Definition { d := def(a, ""); d.Name = "u"; return d }(), "[t: the tool was removed true u: the tool is new false]"},
		"a role":                {def(a, ""), claims(tool.RoleEdit, nil), `[t: the role changed from "" to "edit" true]`},
		"no role":               {claims(tool.RoleEdit, nil), def(a, ""), `[t: the role changed from "edit" to "" true]`},
		"an unknown role":       {def(a, ""), claims("no such role", nil), "[]"},
		"fewer commands":        {def(a, ""), claims("", new(tool.Program)), "[t: other commands with its name run the tool false]"},
		"all commands":          {claims("", new(tool.Program)), def(a, ""), "[t: other commands with its name run the tool true]"},
		"another description":   {def(a, ""), func() tool.Definition { d := def(a, ""); d.Description = "e"; return d }(), "[t: the description changed false]"},
	} {
		got := []string{}
		for _, c := range registry.Compare([]tool.Definition{tc.from}, []tool.Definition{tc.to}) {
			got = append(got, fmt.Sprint(c, " ", c.Breaks))
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}
