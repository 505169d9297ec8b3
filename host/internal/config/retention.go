package config

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"
)

// Retention limits how long the state directory keeps data. For the audit log, see [Audit]. A zero field means the
// default.
type Retention struct {
	// Sessions is the time after which an unused session is deleted. History is the age at which a command is deleted
	// from the history of its session.
	Sessions, History time.Duration
	// Output is the age at which a file with long output is deleted. Undo is the age at which a change can no longer be
	// undone. They apply to the plugins that say that they keep such files; see [tool.Kept]. A plugin's own block has
	// priority.
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

// Ages returns the ages that apply to the files of plugins.
func (r Retention) Ages() tool.Ages { return tool.Ages{Output: r.Output, Undo: r.Undo} }
