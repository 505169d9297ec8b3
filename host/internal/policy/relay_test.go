package policy_test

import (
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestRelayNames checks which rules apply to prompts and resources, whose names can contain slashes.
func TestRelayNames(t *testing.T) {
	ws := t.TempDir()
	const prompt, resource = "github:greet", "github:resource/file:///etc/passwd"
	for _, tc := range []struct {
		rule   policy.Rule
		name   string
		effect policy.Effect
	}{
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:*"}}, prompt, policy.Deny},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:*"}}, resource, policy.Deny},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:resource/*"}}, resource, policy.Deny},
		{policy.Rule{Effect: policy.Ask, Tools: []string{"github:resource/file:*"}}, resource, policy.Ask},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:resource/**"}}, resource, policy.Deny},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:resource/file:///etc/*"}}, resource, policy.Deny},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:resource/*"}}, prompt, policy.Allow},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"gitlab:*"}}, resource, policy.Allow},
		{policy.Rule{Effect: policy.Deny, Kinds: []string{"relay"}}, resource, policy.Deny},
		{policy.Rule{Effect: policy.Deny, Kinds: []string{"relay"}}, prompt, policy.Deny},
	} {
		req := other(t, ws, tc.name, `{}`)
		req.Definition.Category = tool.CategoryRelay
		d := rules(t, policy.Rules{Rules: []policy.Rule{tc.rule}}).Judge(req)
		if d.Effect != tc.effect {
			t.Errorf("%v: %s: %v, want %v", tc.rule, tc.name, d.Effect, tc.effect)
		}
	}
	// A rule that allows does not cover more than it says.
	guarded := policy.Rules{Default: policy.Ask, Rules: []policy.Rule{{Effect: policy.Allow, Tools: []string{"github:resource/file:///pub/*"}}}}
	for name, want := range map[string]policy.Effect{"github:resource/file:///pub/a": policy.Allow, "github:resource/file:///pub/../etc/passwd": policy.Ask} {
		req := other(t, ws, name, `{}`)
		req.Definition.Category = tool.CategoryRelay
		if d := rules(t, guarded).Judge(req); d.Effect != want {
			t.Errorf("%s: %v, want %v", name, d.Effect, want)
		}
	}
}
