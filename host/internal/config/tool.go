package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

type toolHCL struct {
	Name    string         `hcl:"name,label"`
	Enabled *bool          `hcl:"enabled,optional"`
	Timeout hcl.Expression `hcl:"timeout,optional"`

	Priority      int            `hcl:"priority,optional"`
	MaxConcurrent hcl.Expression `hcl:"max_concurrent,optional"`
	Queue         hcl.Expression `hcl:"queue,optional"`
	Attempts      hcl.Expression `hcl:"attempts,optional"`
	RetryDelay    hcl.Expression `hcl:"retry_delay,optional"`
	Keywords      hcl.Expression `hcl:"keywords,optional"`
	Fallback      *fallbackHCL   `hcl:"fallback,block"`

	At hcl.Range `hcl:",def_range"`
}

type fallbackHCL struct {
	Tool   string            `hcl:"tool"`
	Params map[string]string `hcl:"params,optional"`
	At     hcl.Range         `hcl:",def_range"`
}

// Tool contains the operator's settings for one tool. Zero fields do not change the tool's own settings.
type Tool struct {
	Enabled *bool
	Timeout time.Duration

	// Priority determines the order of calls that wait because of the setting "max_calls". The highest priority runs
	// first.
	Priority int
	// MaxConcurrent is the maximum number of concurrent calls of the tool in all sessions. Zero means no limit.
	MaxConcurrent int
	// Queue is the maximum number of waiting calls. Zero means no limit, and a negative value means that no call can
	// wait.
	Queue int
	// Attempts is the maximum number of tries if the plugin exits during a call. The call is repeated only if its tool
	// is safe to repeat.
	Attempts int
	// RetryDelay is the delay before the second retry. It doubles before each further retry.
	RetryDelay time.Duration
	// Fallback is the full name of the tool that runs if this tool is unavailable or times out. Empty means that no
	// other tool runs. FallbackParams maps parameters of this tool to parameters of the fallback tool.
	Fallback       string
	FallbackParams map[string]string
	// Keywords contains words by which a search finds the tool, in addition to the words of its definition.
	Keywords []string

	at      position
	project bool // whether the block is only in a file of the project, which must not prevent a start
}

// Restricts reports whether the operator's file restricts the tool with the block.
func (t *Tool) Restricts() bool {
	return t.at.Filename != "" && !t.project && (t.Enabled != nil && !*t.Enabled || t.MaxConcurrent > 0)
}

// OfProject reports whether the block is only in a file of the project.
func (t *Tool) OfProject() bool { return t.project }

// Restricted returns the settings with the restrictions of another block about the same tool.
func (t *Tool) Restricted(by *Tool) Tool {
	out := *t
	if by.Enabled != nil && !*by.Enabled {
		out.Enabled = by.Enabled
	}
	if by.MaxConcurrent > 0 && (out.MaxConcurrent == 0 || by.MaxConcurrent < out.MaxConcurrent) {
		out.MaxConcurrent = by.MaxConcurrent
	}
	return out
}

func (d *decoder) tool(t *toolHCL) {
	out := Tool{
		Enabled: t.Enabled, Timeout: d.duration(t.Timeout), Priority: t.Priority, RetryDelay: d.duration(t.RetryDelay), at: t.At,
		MaxConcurrent: d.positive(t.MaxConcurrent, "max_concurrent", "At least one call must be able to run; enabled = false turns the tool off."),
		Attempts:      d.positive(t.Attempts, "attempts", "A call is tried at least once."),
	}
	if given(t.Queue) {
		diags := gohcl.DecodeExpression(t.Queue, d.ctx, &out.Queue)
		d.add(diags)
		switch {
		case diags.HasErrors():
		case out.Queue < 0:
			d.fail(t.Queue.Range(), "queue is negative", "Say how many calls may wait; 0 lets none wait.")
		case out.MaxConcurrent == 0 && !given(t.MaxConcurrent):
			d.fail(t.Queue.Range(), "There is no queue without max_concurrent", "Say how many calls may run at once: max_concurrent = 4.")
		case out.Queue == 0:
			out.Queue = -1
		}
	}
	if given(t.Keywords) {
		out.Keywords = d.texts(t.Keywords)
	}
	if f := t.Fallback; f != nil {
		out.Fallback, out.FallbackParams = f.Tool, f.Params
		if f.Tool == t.Name {
			d.fail(f.At, fmt.Sprintf("Tool %q is its own fallback", t.Name), "Name another tool.")
		}
	}
	d.cfg.Tools[t.Name] = out
}

// fallbacks reports tools whose fallbacks form a cycle. In a cycle, a call would never end.
func (d *decoder) fallbacks() {
	reported := make(map[string]bool)
	for _, first := range slices.Sorted(maps.Keys(d.cfg.Tools)) {
		chain := FallbackCycle(d.cfg.Tools, first)
		if len(chain) < 2 || reported[first] { // a tool that is its own fallback is reported with its block
			continue
		}
		d.fail(d.cfg.Tools[first].at, fmt.Sprintf("The fallbacks of tool %q do not end", first), "They are %s, and then %s again. Remove one of them.", strings.Join(chain, ", "), first)
		for _, name := range chain {
			reported[name] = true
		}
	}
}

// FallbackCycle returns the chain of fallbacks that leads from a tool back to this tool. It returns nil if none does.
func FallbackCycle(tools map[string]Tool, first string) []string {
	chain := []string{first}
	for next := tools[first].Fallback; next != first; next = tools[next].Fallback {
		if next == "" || slices.Contains(chain, next) {
			return nil
		}
		chain = append(chain, next)
	}
	return chain
}
