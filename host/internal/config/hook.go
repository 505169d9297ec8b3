package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"
)

// hookTable lists the attributes of a hook block. Package privilege compares hooks as a whole: any change of a hook
// that judges calls can permit more.
var hookTable = newTable(
	row("on", ownList(func(h *Hook) *[]string { return &h.On }, (*decoder).hookEvents), compared, "", "Events: register, unregister, before_call, after_call.", needed),
	row("tools", ownList(func(h *Hook) *[]string { return &h.Tools }, (*decoder).hookTools), compared, "(all tools)", "Globs over full names of tools; a single one may be a string."),
	row("priority", plain("number", func(h *Hook) *int { return &h.Priority }), compared, "0", "Order of the hooks; a higher one runs first."),
	row("timeout", duration(func(h *Hook) *time.Duration { return &h.Timeout }), compared, `"10s"`, "Maximum time of one event."),
	row("on_failure", either(func(h *Hook) *bool { return &h.AllowOnFailure }, "deny", "allow"), compared, `"deny"`, "Decision on a call if the hook fails: deny or allow."),
	row("command", ownList(func(h *Hook) *[]string { return &h.Command }, (*decoder).hookCommand), compared, "", "The program and its arguments.", isCommand),
	row("env", plain("map(string)", func(h *Hook) *map[string]string { return &h.Env }), compared, "{}", "Variables added to the program's environment."),
	row("plugin", custom("string", func(h *Hook) *string { return &h.Plugin }, func(d *decoder, a *hcl.Attribute, to *Hook) { to.Plugin = d.text(a.Expr) }), compared, "", "The plugin that answers, instead of a command."),
	row("trial", not(func(h *Hook) *bool { return &h.NoTrial }), compared, "true", "Whether a new program gets the event trial before the configuration takes effect."),
)

// Hook configures a program or plugin that runs on events of tools and calls.
type Hook struct {
	Name string
	// On lists the events that run the hook: "register", "unregister", "before_call" or "after_call".
	On []string
	// Tools contains globs for full tool names. Empty means all tools.
	Tools []string
	// Priority determines the order of hooks. The highest priority runs first.
	Priority int
	// Timeout limits the duration of each run. Zero means the default timeout.
	Timeout time.Duration
	// AllowOnFailure permits calls if the hook fails.
	AllowOnFailure bool
	// Command is a program with its arguments. Env contains additional environment variables for the program. If
	// Command is empty, Plugin is the name of the plugin that implements the hook.
	Command []string
	Env     map[string]string
	Plugin  string
	// If NoTrial is true, the host does not test the program of the hook with the event "trial". By default, it sends
	// this event to a new program before it uses the configuration.
	NoTrial bool
	// Refused is the reason why the hook must not run. The calls that it judges are denied. It is empty if the hook can
	// run.
	Refused string
	// Place is the position of the block, as "file:line".
	Place string
}

// Judges reports whether the hook can deny calls.
func (h *Hook) Judges() bool {
	return slices.Contains(h.On, "before_call") || slices.Contains(h.On, "after_call")
}

var hookEvents = []string{"register", "unregister", "before_call", "after_call"}

func (d *decoder) hooks(blocks []namedHCL) {
	seen := make(map[string]hcl.Range)
	for i := range blocks {
		b := &blocks[i]
		if first, dup := seen[b.Name]; dup || b.Name == "" {
			d.fail(b.At, fmt.Sprintf("The name of hook %q is empty or taken", b.Name), "The block that has it is at %s:%d. Give this one another name.", first.Filename,
				first.Start.Line)
			continue
		}
		seen[b.Name] = b.At
		d.cfg.Hooks = append(d.cfg.Hooks, d.hook(b))
	}
}

func (d *decoder) hook(b *namedHCL) Hook {
	out := Hook{Name: b.Name, Place: place(b.At)}
	at := hookTable.read(d, b.Rest, &out)
	if _, ok := at["on"]; !ok {
		d.fail(b.At, fmt.Sprintf("Hook %q is for no event", b.Name), "Say when it is called: on = [\"before_call\"]. There are %s.", strings.Join(hookEvents, ", "))
	}
	_, command := at["command"]
	_, plugin := at["plugin"]
	switch {
	case command == plugin:
		d.fail(b.At, fmt.Sprintf("Hook %q needs a command or a plugin", b.Name), "Say who answers: command = [\"/usr/local/bin/guard\"] or plugin = \"guard\", and not both.")
	case plugin:
		d.hookPlugin(b, at["plugin"], &out)
	}
	return out
}

func (d *decoder) hookEvents(a *hcl.Attribute, to *Hook) {
	to.On = d.texts(a.Expr)
	for _, e := range to.On {
		if !slices.Contains(hookEvents, e) {
			d.fail(a.Expr.Range(), fmt.Sprintf("There is no event %q", e), "There are %s.%s",
				strings.Join(hookEvents, ", "), suggest.DidYouMean(e, hookEvents))
		}
	}
	if len(to.On) == 0 {
		d.fail(a.Expr.Range(), fmt.Sprintf("Hook %q is for no event", to.Name), "There are %s.",
			strings.Join(hookEvents, ", "))
	}
}

func (d *decoder) hookTools(a *hcl.Attribute, to *Hook) {
	var ok bool
	d.keepPosition("hook", to.Name, a.Expr)
	if to.Tools, ok = d.globs(a.Expr); ok && len(to.Tools) == 0 {
		d.fail(a.Expr.Range(), fmt.Sprintf("Hook %q is about no tool", to.Name), "Name tools, or leave tools out for all of them.")
	}
}

func (d *decoder) hookCommand(a *hcl.Attribute, to *Hook) {
	if _, diags := a.Expr.Value(d.ctx); diags.HasErrors() {
		d.add(diags)
		to.Refused = d.external(len(d.diags) - len(diags))
		return
	}
	to.Command = d.texts(a.Expr)
	if len(to.Command) == 0 || to.Command[0] == "" {
		d.fail(a.Expr.Range(), fmt.Sprintf("The command of hook %q is empty", to.Name), "Name a program, with its arguments as further elements.")
		return
	}
	if p := to.Command[0]; strings.Contains(p, "/") {
		to.Command[0] = d.path(p)
	}
}

// hookPlugin checks the plugin that implements a hook. It also accepts an optional plugin whose binary does not exist.
// Such a hook fails at every call, so the host denies the calls.
func (d *decoder) hookPlugin(b *namedHCL, at hcl.Range, out *Hook) {
	if len(out.Env) > 0 {
		d.fail(b.At, fmt.Sprintf("Hook %q sets env, but a plugin serves it", b.Name), "Put env into the block of plugin %q.", out.Plugin)
	}
	var known []string
	for _, p := range d.cfg.Plugins {
		known = append(known, p.Name)
	}
	if !slices.Contains(known, out.Plugin) &&
		!slices.ContainsFunc(d.cfg.absent, func(a absentPlugin) bool { return a.Name == out.Plugin }) {
		d.fail(at, fmt.Sprintf("Hook %q is served by %q, which is not configured", b.Name, out.Plugin), "Add a block plugin %q.%s", out.Plugin,
			suggest.DidYouMean(out.Plugin, known))
	}
}

// text evaluates an attribute that must be a string.
func (d *decoder) text(e hcl.Expression) string {
	if all := d.texts(e); len(all) == 1 {
		return all[0]
	}
	d.fail(e.Range(), "This is not one name", "Write one text in quotes.")
	return ""
}

// Equal reports whether two hooks are the same, apart from their positions in the file.
func (h Hook) Equal(other Hook) bool {
	h.Place, other.Place, h.Refused, other.Refused = "", "", "", ""
	return reflect.DeepEqual(h, other)
}
