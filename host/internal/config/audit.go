package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

type auditHCL struct {
	Enabled *bool          `hcl:"enabled,optional"`
	MaxSize hcl.Expression `hcl:"max_size,optional"`
	MaxAge  hcl.Expression `hcl:"max_age,optional"`
	Secrets hcl.Expression `hcl:"secrets,optional"`
	Failure hcl.Expression `hcl:"on_failure,optional"`
}

func (d *decoder) audit(a *auditHCL) {
	out := &d.cfg.Audit
	out.Off = a.Enabled != nil && !*a.Enabled
	if n := d.size(a.MaxSize); n > 0 {
		out.MaxBytes = n
	}
	if t := d.duration(a.MaxAge); t > 0 {
		out.MaxAge = t
	}
	out.Continue = d.choice(a.Failure, "stop", "stop", "continue") == "continue"
	if !given(a.Secrets) {
		return
	}
	var names []string
	d.add(gohcl.DecodeExpression(a.Secrets, d.ctx, &names))
	look := d.env.lookup()
	for _, name := range names {
		if v, ok := look(name); ok { // an unset variable has no value that must be hidden
			out.Secrets = append(out.Secrets, v)
		}
	}
}
