package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// claiming returns a plugin with the description in a text: {"tools": […], "keeps": […]}. Each tool returns its name
// and its arguments, and the state that the plugin keeps for the session. With the argument "write" and a path in
// "file_path", it writes the file itself. With the argument "mark", it reports that it read the file, which it did not.
// It keeps the value of "keep" as the state. With "then", the call fails ("fail"), waits for its cancellation ("hang")
// or never ends ("deaf").
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
		p.Tools = append(p.Tools,
			sdk.NewTool(def, func(ctx context.Context, c *sdk.Call, in map[string]any) (*sdk.Result, error) {
				if path, ok := in["file_path"].(string); ok && in["write"] == true {
					if err := os.WriteFile(path, []byte("written by "+def.Name), 0o600); err != nil {
						return nil, err
					}
				}
				switch in["then"] {
				case "fail":
					return nil, sdk.Errorf(tool.ExecutionFailed, "%s fails.", def.Name)
				case "hang":
					<-ctx.Done()
					return nil, ctx.Err()
				case "deaf":
					select {}
				}
				res := sdk.Text(def.Name + " got " + string(c.Arguments) + ", keeps " + string(c.SessionState))
				if text, ok := in["keep"].(string); ok {
					res.SessionState = []byte(text)
				}
				if path, ok := in["file_path"].(string); ok && in["mark"] == true {
					res.Effects = []tool.Effect{
						{Operation: tool.OpRead, File: tool.FileState{Path: filepath.Join(c.Cwd, path), Size: 8}},
					}
				}
				return res, nil
			}))
	}
	return p
}
