package config

import (
	"github.com/hashicorp/hcl/v2"
)

// Record determines which sessions a host records on tapes. The zero value records none.
type Record struct {
	// Dir is the directory of the tapes. Empty means that no session is recorded.
	Dir string
	// Sessions contains globs for the IDs of sessions. The default session of a workspace has an empty ID.
	Sessions []string
	// Principals contains the names of principals whose sessions are recorded. Empty means all callers.
	Principals []string
	// Exclude contains globs for files of the workspace that the tapes do not contain.
	Exclude []string
	// MaxBytes limits the files of the workspace on a tape. Zero means the default.
	MaxBytes int64
	// Keep is the number of tapes that are kept in Dir.
	Keep int
}

type recordHCL struct {
	Dir        hcl.Expression `hcl:"dir"`
	Sessions   hcl.Expression `hcl:"sessions,optional"`
	Principals hcl.Expression `hcl:"principals,optional"`
	Exclude    hcl.Expression `hcl:"exclude,optional"`
	MaxSize    hcl.Expression `hcl:"max_size,optional"`
	Keep       hcl.Expression `hcl:"keep,optional"`
}

// DefaultKeep is the default of [Record.Keep].
const DefaultKeep = 20

func (d *decoder) record(r *recordHCL) {
	out := &d.cfg.Record
	dir := d.text(r.Dir)
	if dir == "" {
		if !d.diags.HasErrors() {
			d.fail(r.Dir.Range(), "The directory of the tapes is empty", "Name a directory where tools cannot write, such as \"/var/lib/toolhost/tapes\".")
		}
		return
	}
	out.Dir, out.Keep, out.Sessions = d.path(dir), DefaultKeep, []string{"*"}
	if given(r.Sessions) {
		out.Sessions, _ = d.globs(r.Sessions)
	}
	if given(r.Principals) {
		out.Principals = d.texts(r.Principals)
	}
	out.Exclude, _ = d.globs(r.Exclude)
	out.MaxBytes = int64(d.size(r.MaxSize))
	if n := d.positive(r.Keep, "keep", "At least one tape is kept."); n > 0 {
		out.Keep = n
	}
}
