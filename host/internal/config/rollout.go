package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/host/internal/rollout"
)

type rolloutHCL struct {
	Shadow hcl.Expression `hcl:"shadow,optional"`
	Steps  hcl.Expression `hcl:"steps,optional"`
	Pause  hcl.Expression `hcl:"pause,optional"`
	Calls  hcl.Expression `hcl:"calls,optional"`
	Abort  *abortHCL      `hcl:"abort,block"`
	At     hcl.Range      `hcl:",def_range"`
}

type abortHCL struct {
	ErrorRatio  hcl.Expression `hcl:"error_ratio,optional"`
	P95Ratio    hcl.Expression `hcl:"p95_ratio,optional"`
	Differences hcl.Expression `hcl:"differences,optional"`
	MemoryRatio hcl.Expression `hcl:"memory_ratio,optional"`
	OutputRatio hcl.Expression `hcl:"output_ratio,optional"`
}

// defaultRollout returns the settings of an empty rollout block.
func defaultRollout() rollout.Settings {
	return rollout.Settings{
		Shadow: 20, Steps: []float64{5, 25, 50}, Pause: 10 * time.Minute, Calls: 200,
		Abort: rollout.Abort{ErrorRatio: 1.2, P95Ratio: 1.3, Differences: 0.01, MemoryRatio: 2, OutputRatio: 10},
	}
}

func (d *decoder) rollout(b *rolloutHCL) *rollout.Settings {
	out := defaultRollout()
	d.number(b.Shadow, &out.Shadow, 0, 100, "Shadow is a percentage of the read-only calls, from 0 to 100.")
	if given(b.Steps) {
		out.Steps = nil
		d.add(gohcl.DecodeExpression(b.Steps, d.ctx, &out.Steps))
		last := 0.0
		for _, s := range out.Steps {
			if s <= last || s > 100 {
				d.fail(b.Steps.Range(), fmt.Sprintf("%g is no step after %g", s, last), "Write growing percentages of the sessions, such as [5, 25, 50].")
				break
			}
			last = s
		}
	}
	if given(b.Pause) {
		out.Pause = d.duration(b.Pause)
	}
	if n := d.positive(b.Calls, "calls", "A step needs at least one call."); n > 0 {
		out.Calls = n
	}
	if out.Shadow == 0 && len(out.Steps) == 0 && !d.diags.HasErrors() {
		d.fail(b.At, "The rollout has neither a shadow nor steps", "Set shadow or steps, or remove the block.")
	}
	if a := b.Abort; a != nil {
		d.number(a.ErrorRatio, &out.Abort.ErrorRatio, 1, 1000, "The ratio is at least 1.")
		d.number(a.P95Ratio, &out.Abort.P95Ratio, 1, 1000, "The ratio is at least 1.")
		d.number(a.Differences, &out.Abort.Differences, 0, 1, "The share of the compared calls is from 0 to 1, such as 0.01 for 1 %.")
		d.number(a.MemoryRatio, &out.Abort.MemoryRatio, 1, 1000, "The ratio is at least 1.")
		d.number(a.OutputRatio, &out.Abort.OutputRatio, 1, 1000, "The ratio is at least 1.")
	}
	return &out
}

// number evaluates a number from least to most and stores it in *to. If the attribute is not set, *to keeps its
// default.
func (d *decoder) number(e hcl.Expression, to *float64, least, most float64, detail string) {
	if !given(e) {
		return
	}
	var v float64
	diags := gohcl.DecodeExpression(e, d.ctx, &v)
	d.add(diags)
	if !diags.HasErrors() && (v < least || v > most) {
		d.fail(e.Range(), fmt.Sprintf("%g is not allowed here", v), "%s", detail)
	}
	*to = v
}
