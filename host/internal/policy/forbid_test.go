package policy_test

import (
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestForbids checks that only rules without conditions on arguments forbid a tool.
func TestForbids(t *testing.T) {
	for _, tc := range []struct {
		rule policy.Rule
		want bool
	}{
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:*"}}, true},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"jira:*", "github:create"}}, true},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"jira:*"}}, false},
		{policy.Rule{Effect: policy.Ask, Tools: []string{"github:*"}}, false},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:*"}, Paths: []string{"*.env"}}, false},
		{policy.Rule{Effect: policy.Deny, Tools: []string{"github:*"}, Kinds: []string{"edit"}}, false},
		{policy.Rule{Effect: policy.Deny, Traits: []string{"dangerous"}}, true},
		{policy.Rule{Effect: policy.Deny, Traits: []string{"read_only"}}, false},
		{policy.Rule{Effect: policy.Deny, Domains: []string{"example.org"}}, false},
	} {
		for _, rules := range []policy.Rules{{Rules: []policy.Rule{tc.rule}}, {Project: []policy.Rule{tc.rule}}} {
			if got := policy.New(rules).Forbids("github:create", tool.Traits{Dangerous: true}); got != tc.want {
				t.Errorf("%+v: %v", tc.rule, got)
			}
		}
	}
}
