package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/trust"
)

// restrictions is what a trusted configuration permits, with the values of its variables. The trust store keeps it
// after the trust ends, because a tool must not be able to remove restrictions by changing the configuration.
type restrictions struct {
	// Permits has the settings of the configuration; see [privilege.Stored].
	Permits *config.Config `json:"permits"`
	// Judged maps each hook that can deny calls to the globs of its tools. No globs mean all tools. No other setting
	// can replace a missing hook.
	Judged map[string][]string `json:"judged"`
}

// restrictionsOf returns the restrictions in a configuration.
func restrictionsOf(cfg *config.Config) *restrictions {
	out := &restrictions{Permits: privilege.Stored(cfg), Judged: make(map[string][]string)}
	for i := range cfg.Hooks {
		if h := &cfg.Hooks[i]; h.Judges() {
			out.Judged[h.Name] = h.Tools
		}
	}
	return out
}

// keepRestrictions applies the restrictions of a trusted configuration that changed or disappeared. It returns an error
// if a restriction cannot be applied. The parameter "why" is the reason why the configuration itself does not apply.
func keepRestrictions(d *trust.Decision, why string, cfg *config.Config) error {
	if len(d.Restrictions) == 0 { // an older version of the host wrote the decision
		return nil
	}
	r := new(restrictions)
	err := json.Unmarshal(d.Restrictions, r)
	if err == nil && r.Permits == nil {
		err = errors.New("another version of toolhost wrote them")
	}
	if err != nil {
		return fmt.Errorf("the restrictions in the trusted version of %s cannot be read: %w. Review the configuration again: toolhost trust", d.Config, err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Judged)) {
		cfg.Hooks = append(cfg.Hooks, config.Hook{Name: name, On: []string{"before_call"}, Tools: r.Judged[name],
			Place: d.Config, Refused: fmt.Sprintf(
				"%s. Restore the file, review it with toolhost trust, or give the hook up with toolhost trust revoke %s", why, filepath.Dir(d.Config))})
	}
	privilege.KeepStored(cfg, r.Permits)
	return nil
}

// keepAll applies the restrictions in the trusted versions of changed project files. It also applies the restrictions
// of project files that this file hides. The result "kept" reports whether such restrictions exist.
func (s Source) keepAll(decisions *trust.Decisions, why string, cfg *config.Config) (kept bool, err error) {
	all := s.lost(decisions)
	if key, err := canonical(s.Path); err == nil {
		if d, err := decisions.Of(key); err == nil && d != nil {
			all = append(all, d)
		}
	}
	for _, d := range all {
		if err := keepRestrictions(d, why, cfg); err != nil {
			return false, err
		}
	}
	return len(all) > 0, nil
}

// lost returns the decisions about missing project files in the current directory, and about project files
// that another project file hides.
func (s Source) lost(decisions *trust.Decisions) (out []*trust.Decision) {
	cwd, err := os.Getwd()
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}
	if err != nil {
		return nil
	}
	key := ""
	if s.Path != "" {
		if key, err = canonical(s.Path); err != nil {
			return nil
		}
	}
	for _, name := range config.ProjectFiles {
		path := filepath.Join(cwd, name)
		if path == key {
			continue
		}
		if d, err := decisions.Of(path); err == nil && d != nil {
			out = append(out, d)
		}
	}
	return out
}
