package host

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// Grants are what a plugin says that it needs, beside what the configuration grants it.
type Grants struct {
	// Needs as the plugin declares them; nil: it does not, or was never heard.
	Needs *tool.Needs `json:"needs,omitempty"`
	// Needed and Granted say it in words.
	Needed  []string `json:"needed,omitempty"`
	Granted []string `json:"granted"`
	// Unneeded are grants that the plugin has no need for.
	Unneeded []Unneeded `json:"unneeded,omitempty"`
}

// Unneeded is a grant that a plugin has no need for.
type Unneeded struct {
	What string `json:"what"`
	// How to take it back.
	How string `json:"how"`
}

// permit is something that a plugin can need, other than secrets.
type permit struct {
	what    string
	need    func(*tool.Needs) tool.Need
	granted func(*config.Plugin) bool
	// grant and revoke are lines of a sandbox block.
	grant, revoke string
}

var permits = []permit{
	{
		"read in the roots", func(n *tool.Needs) tool.Need { return n.Read },
		func(p *config.Plugin) bool { return !profile(p).NoRoots }, `roots = "read-only"`, `roots = "none"`,
	},
	{
		"write in the roots", func(n *tool.Needs) tool.Need { return n.Write },
		func(p *config.Plugin) bool { return profile(p).WriteRoots }, `roots = "read-write"`, `roots = "read-only"`,
	},
	{
		"start programs", func(n *tool.Needs) tool.Need { return n.Exec },
		func(p *config.Plugin) bool { return profile(p).StartProcesses }, `exec = true`, `exec = false`,
	},
	{
		"reach the network", func(n *tool.Needs) tool.Need { return n.Network },
		func(p *config.Plugin) bool { return profile(p).Network || len(profile(p).Hosts) > 0 }, `network = true`, `network = false`,
	},
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// lacks says what a plugin requires and is not granted, and the lines that would grant it; nil:
// nothing is missing, or the plugin does not say.
func lacks(p *config.Plugin, n *tool.Needs) error {
	if n == nil {
		return nil
	}
	var what, lines, secrets []string
	for _, g := range permits {
		if g.need(n) != tool.Required || g.granted(p) {
			continue
		}
		what = append(what, g.what)
		if g.grant == `roots = "read-write"` { // which is to read, too
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "roots ") })
		}
		lines = append(lines, g.grant)
	}
	for _, s := range n.Secrets {
		if !variableName.MatchString(s.Name) {
			return fmt.Errorf("it needs a secret in a variable %.64q, which no variable can be called. That is for its author to mend", s.Name)
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

// unneeded gives the grants that a plugin has no need for.
func unneeded(p *config.Plugin, n *tool.Needs) []Unneeded {
	if n == nil {
		return nil
	}
	var out []Unneeded
	for _, g := range permits {
		if g.need(n) != tool.NotNeeded || !g.granted(p) {
			continue
		}
		if n.Read == tool.NotNeeded && g.revoke == `roots = "read-only"` {
			continue // it goes with reading
		}
		out = append(out, Unneeded{"to " + g.what, "set " + g.revoke + " in its sandbox block"})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if audit.SecretName(name) && !slices.ContainsFunc(n.Secrets, func(s tool.Secret) bool { return s.Name == name }) {
			out = append(out, Unneeded{"to have the secret " + name, "remove it from env in its block"})
		}
	}
	return out
}

// grants says what a plugin needs beside what it is granted.
func grants(p *config.Plugin, n *tool.Needs) Grants {
	out := Grants{Needs: n, Unneeded: unneeded(p, n), Granted: []string{}}
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

// granted is the supervisor's Granted. What a refused plugin said is kept, so that it is not
// started again only to be refused.
func (h *Host) granted(m *member, d *tool.Description) error {
	err := lacks(&m.Plugin, d.Needs)
	m.refused.Store(err != nil)
	if err == nil {
		return nil
	}
	m.desc.CompareAndSwap(nil, d)
	if m.binary.keyed && !slices.Contains(d.Capabilities, tool.CapabilityDiscovery) {
		if kept := h.keep(m, d); kept != nil {
			h.log.Warn("what a plugin said of itself could not be kept", "plugin", m.Name, "error", kept)
		}
	}
	return err
}

// heard gives what plugins said of themselves before, by name. Nothing is started and nothing
// made; what is not known is left out.
func heard(cfg *config.Config, opts Options) map[string]*tool.Description {
	dir, err := stateDir(opts.StateDir, cfg)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // only read
	out := make(map[string]*tool.Description)
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if b := binaryOf(db, p); b.keyed {
			if desc, _, err := db.Description(b.key); err == nil && desc != nil {
				out[p.Name] = desc
			}
		}
	}
	return out
}
