package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/host/internal/rollout"
)

// restartTable lists the attributes of the restart block. Zero values keep the defaults of package supervisor.
var restartTable = newTable(
	row("failures", count(func(r *Restart) *int { return &r.Failures }, "A plugin is left alone after at least one failure."), free, "5", "Number of failures in a row before it is suspended."),
	row("pause", duration(func(r *Restart) *time.Duration { return &r.Pause }), free, `"30s"`, "Duration of the suspension."),
)

var rolloutTable = newTable(
	row("shadow", ratio(func(s *rollout.Settings) *float64 { return &s.Shadow }, 0, 100, "Shadow is a percentage of the read-only calls, from 0 to 100."), free,
		"20", "Percentage of read-only calls that also run on the new version. Its results are compared and dropped."),
	row("steps", custom("list(number)", func(s *rollout.Settings) *[]float64 { return &s.Steps }, (*decoder).steps), free, "[5, 25, 50]", "Percentages of the sessions that the new version serves, one after the other. Then it serves all."),
	row("pause", duration(func(s *rollout.Settings) *time.Duration { return &s.Pause }), free, `"10m"`, "Minimum time in shadow and in each step."),
	row("calls", count(func(s *rollout.Settings) *int { return &s.Calls }, "A step needs at least one call."), free, "200", "Minimum number of compared calls in shadow, and of calls of the new version in each step."),
	nested[rollout.Settings]("abort", "Rules that stop the rollout, compared with the old version in the same step."),
	row("abort.error_ratio", ratio(func(s *rollout.Settings) *float64 { return &s.Abort.ErrorRatio }, 1, 1000, leastRatio), free, "1.2", "Maximum ratio of the shares of failed calls."),
	row("abort.p95_ratio", ratio(func(s *rollout.Settings) *float64 { return &s.Abort.P95Ratio }, 1, 1000, leastRatio), free, "1.3", "Maximum ratio of the durations that 95 % of the calls do not exceed."),
	row("abort.differences", ratio(func(s *rollout.Settings) *float64 { return &s.Abort.Differences }, 0, 1, "The share of the compared calls is from 0 to 1, such as 0.01 for 1 %."), free,
		"0.01", "Maximum share of compared calls with another result. 0 ignores differences."),
	row("abort.memory_ratio", ratio(func(s *rollout.Settings) *float64 { return &s.Abort.MemoryRatio }, 1, 1000, leastRatio), free, "2", "Maximum ratio of the memory of the largest process."),
	row("abort.output_ratio", ratio(func(s *rollout.Settings) *float64 { return &s.Abort.OutputRatio }, 1, 1000, leastRatio), free, "10", "Maximum ratio of what a call sends while it runs. 1 MiB is always permitted."),
)

const leastRatio = "The ratio is at least 1."

// steps evaluates the percentages of a rollout.
func (d *decoder) steps(a *hcl.Attribute, to *rollout.Settings) {
	to.Steps = nil
	d.add(gohcl.DecodeExpression(a.Expr, d.ctx, &to.Steps))
	last := 0.0
	for _, s := range to.Steps {
		if s <= last || s > 100 {
			d.fail(a.Expr.Range(), fmt.Sprintf("%g is no step after %g", s, last), "Write growing percentages of the sessions, such as [5, 25, 50].")
			break
		}
		last = s
	}
}

func (d *decoder) rollout(b *bodyHCL) *rollout.Settings {
	out := rolloutTable.defaults()
	rolloutTable.read(d, b.Body, &out)
	if out.Shadow == 0 && len(out.Steps) == 0 && !d.diags.HasErrors() {
		d.fail(b.At, "The rollout has neither a shadow nor steps", "Set shadow or steps, or remove the block.")
	}
	return &out
}

// number evaluates a number from least to most and stores it in *to.
func (d *decoder) number(e hcl.Expression, to *float64, least, most float64, detail string) {
	var v float64
	diags := gohcl.DecodeExpression(e, d.ctx, &v)
	d.add(diags)
	if !diags.HasErrors() && (v < least || v > most) {
		d.fail(e.Range(), fmt.Sprintf("%g is not allowed here", v), "%s", detail)
	}
	*to = v
}
