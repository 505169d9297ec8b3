package config

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Retention limits how long the state directory keeps data. For the audit log, see [Audit]. A zero field means the default.
type Retention struct {
	// Sessions is the time after which an unused session is deleted. History is the age at which a command is deleted from
	// the history of its session.
	Sessions, History time.Duration
	// Output is the age at which a file with long output is deleted. Undo is the age at which a change can no longer be
	// undone. Both apply to bundled plugins. A plugin's own block has priority.
	Output, Undo time.Duration
}

type retentionHCL struct {
	Sessions hcl.Expression `hcl:"sessions,optional"`
	History  hcl.Expression `hcl:"history,optional"`
	Output   hcl.Expression `hcl:"output,optional"`
	Undo     hcl.Expression `hcl:"undo,optional"`
}

func (d *decoder) retention(r *retentionHCL) {
	d.cfg.Retention = Retention{Sessions: d.duration(r.Sessions), History: d.duration(r.History), Output: d.duration(r.Output), Undo: d.duration(r.Undo)}
}

// retain passes the retention to the bundled plugins that keep data.
func (c *Config) retain() {
	for i := range c.Plugins {
		p := &c.Plugins[i]
		switch {
		case p.Bundled == "bash" && c.Retention.Output > 0:
			p.setDefault("output_age", c.Retention.Output.String())
		case p.Bundled == "edit" && c.Retention.Undo > 0:
			p.setDefault("undo_age", c.Retention.Undo.String())
		}
	}
}

// setDefault sets a value in the plugin's own configuration, unless the plugin's block sets this value.
func (p *Plugin) setDefault(name, value string) {
	values := make(map[string]json.RawMessage)
	if p.Config != nil && json.Unmarshal(p.Config, &values) != nil {
		return // the plugin reports the invalid configuration
	}
	if slices.Contains(slices.Collect(maps.Keys(values)), name) {
		return
	}
	values[name], _ = json.Marshal(value) // error ignored: a string can always be encoded
	p.Config, _ = json.Marshal(values)
}
