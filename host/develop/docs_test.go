package develop_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/host/develop"
	"toolhost.dev/sdk/tool"
)

// TestHiddenParameters checks that the documentation of a plugin has no hidden parameters.
func TestHiddenParameters(t *testing.T) {
	d := tool.Definition{Name: "echo", Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"guess":{"type":"string","x-toolhost-hidden":true}}}`)}
	if out := develop.Docs(&tool.Description{Name: "p", Tools: []tool.Definition{d}}); !strings.Contains(out, "text") || strings.Contains(out, "guess") {
		t.Error(out)
	}
}
