package main

import (
	"context"
	"encoding/json"
	"os"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// claiming returns a plugin with the description in a text: {"tools": […], "keeps": […]}. Each tool returns its name
// and its arguments. With the argument "write" and a path in "file_path", it writes the file itself.
func claiming(text string) sdk.Plugin {
	var d struct {
		Tools []tool.Definition
		Keeps []tool.Kept
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		panic(err)
	}
	p := sdk.Plugin{Name: "claiming", Version: "1.0.0", Keeps: d.Keeps}
	for _, def := range d.Tools {
		if def.Description == "" {
			def.Description = "Claims something."
		}
		if def.Input == nil {
			def.Input = json.RawMessage(`{"type":"object"}`)
		}
		p.Tools = append(p.Tools, sdk.NewTool(def, func(_ context.Context, c *sdk.Call, in map[string]any) (*sdk.Result, error) {
			if path, ok := in["file_path"].(string); ok && in["write"] == true {
				if err := os.WriteFile(path, []byte("written by "+def.Name), 0o600); err != nil {
					return nil, err
				}
			}
			return sdk.Text(def.Name + " got " + string(c.Arguments)), nil
		}))
	}
	return p
}
