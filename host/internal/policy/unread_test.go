package policy_test

import (
	"strings"
	"testing"

	"toolhost.dev/host/internal/policy"
)

// TestUnread checks that a script that only bash can read counts as unknown, also below another command. It can run any
// command, and read and write any file.
func TestUnread(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	files := policy.Rule{Effect: policy.Deny, Name: "files", Paths: []string{"**/.env"}}
	for name, tc := range map[string]struct {
		rules       policy.Rules
		want, gated policy.Effect
	}{
		"built-in rules": {policy.Rules{}, policy.Ask, policy.Allow}, "careful": {policy.Rules{Careful: true}, policy.Ask, policy.Allow},
		"no rules":       {policy.Rules{NoBuiltin: true}, policy.Allow, policy.Allow},
		"a deny rule":    {policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Deny, "git push *")}}, policy.Ask, policy.Allow},
		"an ask rule":    {policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Ask, "git push *")}}, policy.Ask, policy.Allow},
		"a deny default": {policy.Rules{NoBuiltin: true, Default: policy.Deny}, policy.Deny, policy.Deny},
		"denied files":   {policy.Rules{NoBuiltin: true, Rules: []policy.Rule{files}}, policy.Ask, policy.Ask},
		"listed":         {policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "git *", "cd *", "bash *")}}, policy.Deny, policy.Allow},
		"every command":  {policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Allow, "*")}, Default: policy.Ask}, policy.Ask, policy.Ask},
	} {
		p := rules(t, tc.rules)
		for _, text := range []string{"((git push) || true)", "{ ((git push) || true)\n}", "cd x; a[b c]=1; git push", "! ! git push", "echo ${x.y} $(git push) > .env", "bash -c '((git push) || true)'", "eval '((git push) || true)'", "echo '((git push) || true)' | bash"} {
			for gated, want := range map[bool]policy.Effect{false: tc.want, true: tc.gated} {
				if gated && want == policy.Allow && (strings.Contains(text, "eval") || strings.Contains(text, ".env")) {
					continue // other rules decide about the part that can be read
				}
				req := command(t, "/work/space", text)
				req.Gated = gated
				d := p.Judge(req)
				if d.Effect != want {
					t.Errorf("%s: %q, gated %v: %s, wanted %s (%s %s)", name, text, gated, d.Effect, want, d.Rule, d.Reason)
				}
				if !strings.Contains(strings.Join(d.Unknown, "\n"), "cannot be parsed") {
					t.Errorf("%s: %q: unknown: %q", name, text, d.Unknown)
				}
			}
		}
	}
}
