package engine

import (
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestNeededLogin checks which errors lead to a login. Only errors from the plugin of a field do, and errors from the
// host about a field that is not loaded.
func TestNeededLogin(t *testing.T) {
	const text = "the server needs a login; run: toolhost mcp login up"
	for name, tc := range map[string]struct {
		kind   tool.Kind
		source tool.Source
		called string
		want   string
	}{
		"the field itself":      {tool.Unavailable, tool.SourceTool, "up:search", "up"},
		"a field without start": {tool.Unavailable, tool.SourcePlugin, "", "up"},
		"another plugin":        {tool.Unavailable, tool.SourceTool, "evil:search", ""},
		"a command":             {tool.ExecutionFailed, tool.SourceTool, "up:search", ""},
		"an unknown tool":       {tool.Unavailable, tool.SourceTool, "", ""},
	} {
		res := tool.Failed(tool.Errorf(tc.kind, "%s", text).From(tc.source))
		res.Run.Tool = tc.called
		if got, _ := NeededLogin(res); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, _ := NeededLogin(&tool.Result{Output: text}); got != "" {
		t.Errorf("a success: %q", got)
	}
}
