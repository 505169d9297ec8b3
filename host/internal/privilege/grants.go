package privilege

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/lazyregexp"
)

// Grants contains the needed and the granted permissions of a plugin.
type Grants struct {
	// Needs contains the permissions that the plugin declares as needed. It is nil if the plugin declares none or its
	// description is unknown.
	Needs *tool.Needs `json:"needs,omitempty"`
	// Needed and Granted contain the needed and the granted permissions as text.
	Needed  []string `json:"needed,omitempty"`
	Granted []string `json:"granted"`
	// Unneeded lists the granted permissions that the plugin does not need.
	Unneeded []UnneededGrant `json:"unneeded,omitempty"`
}

// UnneededGrant is a granted permission that a plugin does not need.
type UnneededGrant struct {
	What string `json:"what"`
	// How explains how to revoke the permission.
	How string `json:"how"`
}

// permit is a permission that a plugin can need. Permissions for secrets are separate.
type permit struct {
	what    string
	need    func(*tool.Needs) tool.Need
	granted func(*config.Plugin) bool
	// grant and revoke are lines for the plugin's "sandbox" block.
	grant, revoke string
}

var permits = []permit{
	{
		"read in the roots", func(n *tool.Needs) tool.Need { return n.Read },
		func(p *config.Plugin) bool { return !confinement.Profile(p).NoRoots }, `roots = "read-only"`, `roots = "none"`,
	},
	{
		"write in the roots", func(n *tool.Needs) tool.Need { return n.Write },
		func(p *config.Plugin) bool { return confinement.Profile(p).WriteRoots }, `roots = "read-write"`,
		`roots = "read-only"`,
	},
	{
		"start programs", func(n *tool.Needs) tool.Need { return n.Exec },
		func(p *config.Plugin) bool { return confinement.Profile(p).StartProcesses }, `exec = true`, `exec = false`,
	},
	{
		"reach the network", func(n *tool.Needs) tool.Need { return n.Network },
		func(p *config.Plugin) bool {
			return confinement.Profile(p).Network || len(confinement.Profile(p).Hosts) > 0
		}, `network = true`, `network = false`,
	},
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// MissingGrants returns an error that lists the required permissions that are not granted, with the lines that grant
// them. It returns nil if all are granted or if the plugin declares no needs.
func MissingGrants(p *config.Plugin, n *tool.Needs) error {
	if n == nil {
		return nil
	}
	var what, lines, secrets []string
	for _, g := range permits {
		if g.need(n) != tool.Required || g.granted(p) {
			continue
		}
		what = append(what, g.what)
		if g.grant == `roots = "read-write"` { // the line also permits reading
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "roots ") })
		}
		lines = append(lines, g.grant)
	}
	for _, s := range n.Secrets {
		if !variableName.MatchString(s.Name) {
			return fmt.Errorf("the plugin needs a secret in the variable %.64q, which is not a valid name. The author of the plugin must change the name", s.Name)
		}
		if _, given := p.Env[s.Name]; s.Need == tool.Required && !given {
			secrets = append(secrets, fmt.Sprintf("%s = env(%q)", s.Name, s.Name))
			what = append(what, "have the secret "+s.Name)
		}
	}
	if len(what) == 0 {
		return nil
	}
	var how []string
	if len(lines) > 0 {
		how = append(how, "sandbox {\n  "+strings.Join(lines, "\n  ")+"\n}")
	}
	if len(secrets) > 0 {
		how = append(how, fmt.Sprintf("env = { %s }", strings.Join(secrets, ", ")))
	}
	return fmt.Errorf("the plugin needs to %s, but this is not granted. Add to its block:\n%s", strings.Join(what, " and to "), strings.Join(how, "\n"))
}

// UnneededGrants returns the granted permissions that the plugin does not need. It returns nil if the plugin declares
// no needs.
func UnneededGrants(p *config.Plugin, n *tool.Needs) []UnneededGrant {
	if n == nil {
		return nil
	}
	var out []UnneededGrant
	for _, g := range permits {
		if g.need(n) != tool.NotNeeded || !g.granted(p) {
			continue
		}
		if n.Read == tool.NotNeeded && g.revoke == `roots = "read-only"` {
			continue // the line that revokes reading also revokes writing
		}
		out = append(out, UnneededGrant{"to " + g.what, "set " + g.revoke + " in its sandbox block"})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if audit.SecretName(name) &&
			!slices.ContainsFunc(n.Secrets, func(s tool.Secret) bool { return s.Name == name }) {
			out = append(out, UnneededGrant{"to have the secret " + name, "remove it from env in its block"})
		}
	}
	return out
}

// GrantsOf returns a plugin's permissions and needs. A nil n means that the needs are unknown.
func GrantsOf(p *config.Plugin, n *tool.Needs) Grants {
	out := Grants{Needs: n, Unneeded: UnneededGrants(p, n), Granted: []string{}}
	for _, g := range permits {
		if n != nil && g.need(n) != tool.NotNeeded {
			out.Needed = append(out.Needed, needText("to "+g.what, g.need(n)))
		}
		if g.granted(p) {
			out.Granted = append(out.Granted, "to "+g.what)
		}
	}
	if n != nil {
		for _, s := range n.Secrets {
			out.Needed = append(out.Needed, needText("to have the secret "+s.Name, s.Need))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if audit.SecretName(name) ||
			n != nil && slices.ContainsFunc(n.Secrets, func(s tool.Secret) bool { return s.Name == name }) {
			out.Granted = append(out.Granted, "to have the secret "+name)
		}
	}
	return out
}

func needText(what string, n tool.Need) string {
	if n == tool.Required {
		return what
	}
	return what + ", where it is granted"
}
