package tool_test

import (
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// TestRetain checks which attributes of a plugin's configuration the operator's ages set: those that the plugin names
// and has, and that its own block does not set.
func TestRetain(t *testing.T) {
	ages := tool.Ages{Output: 24 * time.Hour, Undo: 48 * time.Hour}
	schema := `{"type":"object","properties":{"undo_age":{"type":"string"},"out":{"type":"string"},"n":{"type":"integer"}}}`
	undo, output := tool.Kept{Kind: tool.KeptUndo, Age: "undo_age"}, tool.Kept{Kind: tool.KeptOutput, Age: "out"}
	for name, c := range map[string]struct {
		schema, config string
		keeps          []tool.Kept
		ages           tool.Ages
		want           string
	}{
		"both":              {schema, `{"n":1}`, []tool.Kept{undo, output}, ages, `{"n":1,"out":"24h0m0s","undo_age":"48h0m0s"}`},
		"no configuration":  {schema, ``, []tool.Kept{undo}, ages, `{"undo_age":"48h0m0s"}`},
		"null":              {schema, `null`, []tool.Kept{undo}, ages, `{"undo_age":"48h0m0s"}`},
		"own value":         {schema, `{"undo_age":"1h"}`, []tool.Kept{undo}, ages, `{"undo_age":"1h"}`},
		"no age":            {schema, `{"n":1}`, []tool.Kept{undo}, tool.Ages{Output: time.Hour}, `{"n":1}`},
		"keeps nothing":     {schema, `{"n":1}`, nil, ages, `{"n":1}`},
		"unknown attribute": {schema, `{"n":1}`, []tool.Kept{{Kind: tool.KeptUndo, Age: "token"}}, ages, `{"n":1}`},
		"no attribute":      {schema, `{"n":1}`, []tool.Kept{{Kind: tool.KeptUndo}}, ages, `{"n":1}`},
		"unknown kind":      {schema, `{"n":1}`, []tool.Kept{{Kind: "else", Age: "out"}}, ages, `{"n":1}`},
		"no schema":         {``, `{"n":1}`, []tool.Kept{undo}, ages, `{"n":1}`},
		"not an object":     {schema, `[1]`, []tool.Kept{undo}, ages, `[1]`},
	} {
		d := &tool.Description{ConfigSchema: []byte(c.schema), Keeps: c.keeps}
		if got := string(d.Retain([]byte(c.config), c.ages)); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}
