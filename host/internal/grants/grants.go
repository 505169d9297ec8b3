// Package grants compares what plugins need with what the configuration grants them. Most callers want [Missing],
// which says why a plugin cannot run, or [Of].
package grants

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
)

// Grants are a plugin's needs and grants.
type Grants struct {
	// Needs is what the plugin declares. It is nil if the plugin declares nothing, or was never described.
	Needs *tool.Needs `json:"needs,omitempty"`
	// Needed and Granted list needs and grants in words.
	Needed  []string `json:"needed,omitempty"`
	Granted []string `json:"granted"`
	// Unneeded lists the grants that the plugin does not need.
	Unneeded []Extra `json:"unneeded,omitempty"`
}

// Extra is a grant that a plugin does not need.
type Extra struct {
	What string `json:"what"`
	// How says how to revoke it.
	How string `json:"how"`
}

// permit is something that a plugin can need, apart from secrets.
type permit struct {
	what    string
	need    func(*tool.Needs) tool.Need
	granted func(*config.Plugin) bool
	// grant and revoke are lines for the plugin's sandbox block.
	grant, revoke string
}

var permits = []permit{
	{
		"read in the roots", func(n *tool.Needs) tool.Need { return n.Read },
		func(p *config.Plugin) bool { return !confinement.Profile(p).NoRoots }, `roots = "read-only"`, `roots = "none"`,
	},
	{
		"write in the roots", func(n *tool.Needs) tool.Need { return n.Write },
		func(p *config.Plugin) bool { return confinement.Profile(p).WriteRoots }, `roots = "read-write"`, `roots = "read-only"`,
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

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Missing returns an error that names what a plugin requires and is not granted, with the lines that grant it. It
// returns nil if nothing is missing, or the plugin declares no needs.
func Missing(p *config.Plugin, n *tool.Needs) error {
	if n == nil {
		return nil
	}
	var what, lines, secrets []string
	for _, g := range permits {
		if g.need(n) != tool.Required || g.granted(p) {
			continue
		}
		what = append(what, g.what)
		if g.grant == `roots = "read-write"` { // includes reading
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "roots ") })
		}
		lines = append(lines, g.grant)
	}
	for _, s := range n.Secrets {
		if !variableName.MatchString(s.Name) {
			return fmt.Errorf("it needs a secret in the variable %.64q, which is not a valid name. Its author must change that", s.Name)
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
		how = append(how, "to its sandbox block: "+strings.Join(lines, " and "))
	}
	if len(secrets) > 0 {
		how = append(how, fmt.Sprintf("to its block: env = { %s }", strings.Join(secrets, ", ")))
	}
	return fmt.Errorf("it needs to %s, which it is not granted. Add %s", strings.Join(what, " and to "), strings.Join(how, ", and "))
}

// Unneeded returns the grants that a plugin does not need. It returns nil if the plugin declares no needs.
func Unneeded(p *config.Plugin, n *tool.Needs) []Extra {
	if n == nil {
		return nil
	}
	var out []Extra
	for _, g := range permits {
		if g.need(n) != tool.NotNeeded || !g.granted(p) {
			continue
		}
		if n.Read == tool.NotNeeded && g.revoke == `roots = "read-only"` {
			continue // reading is unneeded, too, and revoking that covers both
		}
		out = append(out, Extra{"to " + g.what, "set " + g.revoke + " in its sandbox block"})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if audit.SecretName(name) && !slices.ContainsFunc(n.Secrets, func(s tool.Secret) bool { return s.Name == name }) {
			out = append(out, Extra{"to have the secret " + name, "remove it from env in its block"})
		}
	}
	return out
}

// Of returns a plugin's grants beside its needs. n is nil if they are not known.
func Of(p *config.Plugin, n *tool.Needs) Grants {
	out := Grants{Needs: n, Unneeded: Unneeded(p, n), Granted: []string{}}
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
		if audit.SecretName(name) || n != nil && slices.ContainsFunc(n.Secrets, func(s tool.Secret) bool { return s.Name == name }) {
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
