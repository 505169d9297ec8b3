package cli

import (
	"strings"
	"testing"
)

// TestReplacing checks which differences prevent a server from acquiring the socket of another server, and which
// differences only cause a warning.
func TestReplacing(t *testing.T) {
	base := func() *terms {
		return &terms{
			Workspace: "/w", Workspaces: map[string]string{"t": "/w\n/x/*", "a": ""}, Principals: []string{"principal ci", "issuer idp"},
			Config: "/c.hcl", Tools: []string{"bash", "read"},
		}
	}
	for name, tc := range map[string]struct {
		change        func(old, now *terms)
		refused, warn string
	}{
		"nothing": {func(_, _ *terms) {}, "", ""},
		"more of all": {func(_, now *terms) {
			now.Workspaces["t"] += "\n/y"
			now.Workspaces["z"] = "/z"
			now.Principals = append(now.Principals, "principal x")
			now.Tools = append(now.Tools, "z")
			now.Anonymous = true
		}, "", ""},
		"workspace":       {func(_, now *terms) { now.Workspace = "/v" }, "the workspace is /v, and not /w", ""},
		"workspaces":      {func(_, now *terms) { now.Workspaces["t"] = "/w" }, "it lacks the workspaces /x/* (--allow-workspace)", ""},
		"tokens":          {func(_, now *terms) { delete(now.Workspaces, "t"); now.Workspaces["u"] = "/w\n/x/*" }, "it has other tokens", ""},
		"without a token": {func(old, _ *terms) { old.Anonymous = true }, "--no-auth", ""},
		"TLS":             {func(_, now *terms) { now.TLS = true }, "TLS", ""},
		"principals":      {func(_, now *terms) { now.Principals = now.Principals[1:] }, "its configuration lacks principal ci", ""},
		"configuration":   {func(_, now *terms) { now.Config = "/d.hcl" }, "", "the configuration is now /d.hcl, and was /c.hcl"},
		"tools":           {func(_, now *terms) { now.Tools = now.Tools[:1] }, "", "lacks the tools read"},
	} {
		old, now := base(), base()
		tc.change(old, now)
		refused, warnings := now.replacing(old)
		for _, part := range []struct {
			got  []string
			want string
		}{{refused, tc.refused}, {warnings, tc.warn}} {
			if text := strings.Join(part.got, "; "); (text == "") != (part.want == "") || !strings.Contains(text, part.want) || len(part.got) > 1 {
				t.Errorf("%s: %q, wanted %q", name, text, part.want)
			}
		}
	}
}
