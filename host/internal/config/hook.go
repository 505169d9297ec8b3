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

type hookHCL struct {
	Name      string            `hcl:"name,label"`
	On        hcl.Expression    `hcl:"on,optional"`
	Tools     hcl.Expression    `hcl:"tools,optional"`
	Priority  int               `hcl:"priority,optional"`
	Timeout   hcl.Expression    `hcl:"timeout,optional"`
	OnFailure hcl.Expression    `hcl:"on_failure,optional"`
	Command   hcl.Expression    `hcl:"command,optional"`
	Env       map[string]string `hcl:"env,optional"`
	Plugin    hcl.Expression    `hcl:"plugin,optional"`
	Trial     *bool             `hcl:"trial,optional"`
	At        hcl.Range         `hcl:",def_range"`
}

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

func (d *decoder) hooks(blocks []hookHCL) {
	seen := make(map[string]hcl.Range)
	for i := range blocks {
		b := &blocks[i]
		if first, dup := seen[b.Name]; dup || b.Name == "" {
			d.fail(b.At, fmt.Sprintf("The name of hook %q is empty or taken", b.Name), "The block that has it is at %s:%d. Give this one another name.", first.Filename, first.Start.Line)
			continue
		}
		seen[b.Name] = b.At
		d.cfg.Hooks = append(d.cfg.Hooks, d.hook(b))
	}
}

func (d *decoder) hook(b *hookHCL) Hook {
	out := Hook{
		Name: b.Name, Priority: b.Priority, Timeout: d.duration(b.Timeout), Env: b.Env, Place: place(b.At), NoTrial: b.Trial != nil && !*b.Trial,
		AllowOnFailure: d.choice(b.OnFailure, "deny", "deny", "allow") == "allow",
	}
	if !given(b.On) {
		d.fail(b.At, fmt.Sprintf("Hook %q is for no event", b.Name), "Say when it is called: on = [\"before_call\"]. There are %s.", strings.Join(hookEvents, ", "))
	} else {
		out.On = d.texts(b.On)
		for _, e := range out.On {
			if !slices.Contains(hookEvents, e) {
				d.fail(b.On.Range(), fmt.Sprintf("There is no event %q", e), "There are %s.%s", strings.Join(hookEvents, ", "), suggest.DidYouMean(e, hookEvents))
			}
		}
		if len(out.On) == 0 {
			d.fail(b.On.Range(), fmt.Sprintf("Hook %q is for no event", b.Name), "There are %s.", strings.Join(hookEvents, ", "))
		}
	}
	if given(b.Tools) {
		var ok bool
		d.keepPosition("hook", b.Name, b.Tools)
		if out.Tools, ok = d.globs(b.Tools); ok && len(out.Tools) == 0 {
			d.fail(b.Tools.Range(), fmt.Sprintf("Hook %q is about no tool", b.Name), "Name tools, or leave tools out for all of them.")
		}
	}
	switch {
	case given(b.Command) == given(b.Plugin):
		d.fail(b.At, fmt.Sprintf("Hook %q needs a command or a plugin", b.Name), "Say who answers: command = [\"/usr/local/bin/guard\"] or plugin = \"guard\", and not both.")
	case given(b.Command):
		if _, diags := b.Command.Value(d.ctx); diags.HasErrors() {
			d.add(diags)
			out.Refused = d.external(len(d.diags) - len(diags))
			break
		}
		out.Command = d.texts(b.Command)
		if len(out.Command) == 0 || out.Command[0] == "" {
			d.fail(b.Command.Range(), fmt.Sprintf("The command of hook %q is empty", b.Name), "Name a program, with its arguments as further elements.")
			break
		}
		if p := out.Command[0]; strings.Contains(p, "/") {
			out.Command[0] = d.path(p)
		}
	default:
		out.Plugin = d.hookPlugin(b)
	}
	return out
}

// hookPlugin evaluates the name of the plugin that implements a hook. It also accepts an optional plugin whose binary
// does not exist. Such a hook fails at every call, so the host denies the calls.
func (d *decoder) hookPlugin(b *hookHCL) string {
	name := d.text(b.Plugin)
	if len(b.Env) > 0 {
		d.fail(b.At, fmt.Sprintf("Hook %q sets env, but a plugin serves it", b.Name), "Put env into the block of plugin %q.", name)
	}
	var known []string
	for _, p := range d.cfg.Plugins {
		known = append(known, p.Name)
	}
	if !slices.Contains(known, name) && !slices.ContainsFunc(d.cfg.absent, func(a absentPlugin) bool { return a.Name == name }) {
		d.fail(b.Plugin.Range(), fmt.Sprintf("Hook %q is served by %q, which is not configured", b.Name, name), "Add a block plugin %q.%s", name, suggest.DidYouMean(name, known))
	}
	return name
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
