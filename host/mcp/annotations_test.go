package mcp

import (
	"testing"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// TestAnnotations checks that only tools that an agent must ask about are destructive.
func TestAnnotations(t *testing.T) {
	for _, c := range []struct {
		traits      tool.Traits
		destructive bool
	}{{tool.Traits{}, true}, {tool.Traits{Idempotent: true}, true}, {tool.Traits{ReadOnly: true}, false}, {tool.Traits{AutoExecute: true}, false}} {
		a := annotations(&host.Tool{Definition: tool.Definition{Traits: c.traits}})
		if *a.DestructiveHint != c.destructive || a.ReadOnlyHint != c.traits.ReadOnly || a.IdempotentHint != c.traits.Idempotent {
			t.Errorf("%+v: %+v", c.traits, a)
		}
	}
}
