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
	Name     string    `hcl:"name,label"`
	Fallback *bodyHCL  `hcl:"fallback,block"`
	Rest     hcl.Body  `hcl:",remain"`
	At       hcl.Range `hcl:",def_range"`
}

// toolTable lists the attributes of a tool block.
var toolTable = newTable(
	row("enabled", optional(func(t *Tool) **bool { return &t.Enabled }), higher, "(that of the tool)", "Whether the tool can be called."),
	row("timeout", duration(func(t *Tool) *time.Duration { return &t.Timeout }), free, "(that of the tool)", "Timeout of a call."),
	row("priority", plain("number", func(t *Tool) *int { return &t.Priority }), free, "0", "Priority among calls that wait because of max_calls; a higher one runs first."),
	row("max_concurrent", count(func(t *Tool) *int { return &t.MaxConcurrent }, "At least one call must be able to run; enabled = false turns the tool off."), higher, "(no limit)", "Maximum number of concurrent calls, of all sessions."),
	row("queue", custom("number", func(t *Tool) *int { return &t.Queue }, (*decoder).queue), free, "(no limit)", "Maximum number of calls that wait for the limit; further calls fail."),
	row("attempts", count(func(t *Tool) *int { return &t.Attempts }, "A call is tried at least once."), free,
		"(5 for read-only and idempotent tools)", "Maximum number of attempts if the plugin is killed during the call, or the tool names the time of the next try. Arguments that end the plugin twice are refused."),
	row("retry_delay", duration(func(t *Tool) *time.Duration { return &t.RetryDelay }), free, "(50 ms)", "Delay before the second retry; it doubles with each later one."),
	row("keywords", texts(func(t *Tool) *[]string { return &t.Keywords }), free, "[]", "Words by which a search finds the tool, in addition to the words of its definition."),
)

var fallbackTable = newTable(
	row("tool", plain("string", func(t *Tool) *string { return &t.Fallback }), free, "", "Full name of the fallback tool.", required),
	row("params", plain("map(string)", func(t *Tool) *map[string]string { return &t.FallbackParams }), free, "{}", "Names of the parameters there. An empty name drops the parameter."),
)

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
	forbids := func(a attribute[Tool]) bool { return a.forbids(t) }
	return t.at.Filename != "" && !t.project && slices.ContainsFunc(toolTable.rows, forbids)
}

// OfProject reports whether the block is only in a file of the project.
func (t *Tool) OfProject() bool { return t.project }

// Restricted returns the settings with the restrictions of another block about the same tool.
func (t *Tool) Restricted(by *Tool) Tool {
	out := *t
	toolTable.stricter(&out, by)
	return out
}

func (d *decoder) tool(t *toolHCL) {
	out := Tool{at: t.At}
	at := toolTable.read(d, t.Rest, &out)
	if _, limited := at["max_concurrent"]; !limited && out.Queue != 0 {
		d.fail(at["queue"], "There is no queue without max_concurrent", "Set the maximum number of concurrent calls: max_concurrent = 4.")
	}
	if f := t.Fallback; f != nil {
		fallbackTable.read(d, f.Body, &out)
		if out.Fallback == t.Name {
			d.fail(f.At, fmt.Sprintf("Tool %q is its own fallback", t.Name), "Name another tool.")
		}
	}
	d.cfg.Tools[t.Name] = out
}

// queue evaluates the number of calls that may wait for max_concurrent.
func (d *decoder) queue(a *hcl.Attribute, to *Tool) {
	diags := gohcl.DecodeExpression(a.Expr, d.ctx, &to.Queue)
	d.add(diags)
	switch {
	case diags.HasErrors():
	case to.Queue < 0:
		d.fail(a.Expr.Range(), "queue is negative", "Set the maximum number of waiting calls. With 0, no call waits.")
		to.Queue = 0
	case to.Queue == 0:
		to.Queue = -1
	}
}

// fallbacks reports tools whose fallbacks form a cycle. In a cycle, a call would never end.
func (d *decoder) fallbacks() {
	reported := make(map[string]bool)
	for _, first := range slices.Sorted(maps.Keys(d.cfg.Tools)) {
		chain := FallbackCycle(d.cfg.Tools, first)
		if len(chain) < 2 || reported[first] { // a tool that is its own fallback is reported with its block
			continue
		}
		d.fail(d.cfg.Tools[first].at, fmt.Sprintf("The fallbacks of tool %q do not end", first), "They are %s, and then %s again. Remove one of them.",
			strings.Join(chain, ", "), first)
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
