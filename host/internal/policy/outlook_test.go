package policy_test

import (
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestOutlook checks the decision on all calls of a tool. A tool counts as denied only if every call is denied.
func TestOutlook(t *testing.T) {
	const (
		plain = `{"type":"object","properties":{"title":{"type":"string"}}}`
		files = `{"type":"object","properties":{"file":{"type":"string","x-toolhost-path":"write"}}}`
		reads = `{"type":"object","properties":{"file":{"type":"string","x-toolhost-path":"read"}}}`
		none  = `{"type":"object"}`
	)
	dangerous := tool.Traits{Dangerous: true}
	rule := func(e policy.Effect, r policy.Rule) policy.Rules {
		r.Effect, r.Name = e, "r"
		return policy.Rules{Rules: []policy.Rule{r}}
	}
	byDefault := func(e policy.Effect, r policy.Rules) policy.Rules {
		r.Default = e
		return r
	}
	project := func(r policy.Rules) policy.Rules { return policy.Rules{Project: r.Rules} }
	all, paths := policy.Rule{Tools: []string{"github:*"}}, policy.Rule{Tools: []string{"github:*"}, Paths: []string{"*.env"}}
	hosts, edits, danger := policy.Rule{Domains: []string{"example.org"}}, policy.Rule{Kinds: []string{"edit"}}, policy.Rule{Traits: []string{"dangerous"}}
	for name, tc := range map[string]struct {
		rules  policy.Rules
		schema string
		traits tool.Traits
		want   policy.Effect
	}{
		"no rule":                                {policy.Rules{}, plain, tool.Traits{}, policy.Allow},
		"a dangerous tool":                       {policy.Rules{}, plain, dangerous, policy.Ask},
		"a dangerous tool that a rule allows":    {rule(policy.Allow, all), plain, dangerous, policy.Allow},
		"a dangerous tool with some paths":       {rule(policy.Allow, paths), files, dangerous, policy.Depends},
		"denied":                                 {rule(policy.Deny, all), plain, tool.Traits{}, policy.Deny},
		"denied by one of two globs":             {rule(policy.Deny, policy.Rule{Tools: []string{"jira:*", "github:create"}}), plain, tool.Traits{}, policy.Deny},
		"another tool":                           {rule(policy.Deny, policy.Rule{Tools: []string{"jira:*"}}), plain, tool.Traits{}, policy.Allow},
		"denied by its traits":                   {rule(policy.Deny, danger), plain, dangerous, policy.Deny},
		"other traits":                           {rule(policy.Deny, danger), plain, tool.Traits{}, policy.Allow},
		"asked":                                  {rule(policy.Ask, all), plain, tool.Traits{}, policy.Ask},
		"asked by a project":                     {project(rule(policy.Ask, all)), plain, tool.Traits{}, policy.Ask},
		"denied by a project":                    {project(rule(policy.Deny, all)), plain, tool.Traits{}, policy.Deny},
		"a path rule, a tool with paths":         {rule(policy.Deny, paths), files, tool.Traits{}, policy.Depends},
		"a path rule, a tool without paths":      {rule(policy.Deny, paths), plain, tool.Traits{}, policy.Allow},
		"a rule about edits, a tool that edits":  {rule(policy.Deny, edits), files, tool.Traits{}, policy.Deny},
		"a rule about edits, a tool that reads":  {rule(policy.Deny, edits), reads, tool.Traits{}, policy.Allow},
		"a domain":                               {rule(policy.Deny, hosts), plain, tool.Traits{}, policy.Depends},
		"a domain, a tool without arguments":     {rule(policy.Deny, hosts), none, tool.Traits{}, policy.Allow},
		"a rule about commands":                  {rule(policy.Deny, policy.Rule{Commands: []string{"rm *"}}), plain, tool.Traits{}, policy.Allow},
		"denied by default":                      {byDefault(policy.Deny, policy.Rules{}), plain, tool.Traits{}, policy.Deny},
		"denied by default, allowed":             {byDefault(policy.Deny, rule(policy.Allow, all)), plain, tool.Traits{}, policy.Allow},
		"denied by default, some paths allowed":  {byDefault(policy.Deny, rule(policy.Allow, paths)), files, tool.Traits{}, policy.Depends},
		"denied by default, a domain is asked":   {byDefault(policy.Deny, rule(policy.Ask, hosts)), plain, tool.Traits{}, policy.Depends},
		"denied by default, paths without paths": {byDefault(policy.Deny, rule(policy.Allow, paths)), plain, tool.Traits{}, policy.Deny},
		"asked by default, a domain is denied":   {byDefault(policy.Ask, rule(policy.Deny, hosts)), plain, tool.Traits{}, policy.Ask},
		"careful, a tool that reads files":       {policy.Rules{Careful: true}, reads, tool.Traits{}, policy.Depends},
		"careful, a tool without files":          {policy.Rules{Careful: true}, plain, tool.Traits{}, policy.Allow},
	} {
		schema, err := tool.ParseSchema([]byte(tc.schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, rules := range [][]policy.Rule{tc.rules.Rules, tc.rules.Project} {
			for i := range rules {
				if problems := rules[i].Prepare(); problems != nil {
					t.Fatal(name, problems)
				}
			}
		}
		got := policy.New(tc.rules).Outlook(&policy.Request{Name: "github:create", Definition: &tool.Definition{Traits: tc.traits}, Schema: schema})
		if got.Effect != tc.want || (got.Reason == "") != (tc.want == policy.Allow) {
			t.Errorf("%s: %+v, want %s", name, got, tc.want)
		}
	}
}

// TestOutlookOfCommands checks decisions on all calls of the tool that runs commands.
func TestOutlookOfCommands(t *testing.T) {
	schema, err := tool.ParseSchema([]byte(`{"type":"object","properties":{"command":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[policy.Effect]policy.Rule{
		policy.Deny: {Effect: policy.Deny, Kinds: []string{"bash"}}, policy.Ask: {Effect: policy.Ask, Tools: []string{"bash"}}, policy.Depends: {Effect: policy.Deny, Commands: []string{"rm *"}},
	} {
		if got := policy.New(policy.Rules{Rules: []policy.Rule{r}}).Outlook(&policy.Request{Name: "bash", Definition: new(tool.Definition), Schema: schema, Shell: true}); got.Effect != want {
			t.Errorf("%+v: %+v, want %s", r, got, want)
		}
	}
}
