package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
)

// watched is what a plugin that is not pinned says of its tools, as against what the operator
// approved of, which is what it said first or what they approved since.
type watched struct {
	plugin string
	tools  []tool.Definition
	sum    state.Sum
	// first: it was never heard before. reported: the operator was told of the changes.
	first, reported bool
	since           time.Time
	changes         []ToolChange
	held            []string // names of tools, sorted
}

func (g *generation) watchedPlugin(name string) *watched {
	i := slices.IndexFunc(g.watched, func(w watched) bool { return w.plugin == name && len(w.changes) > 0 })
	if i < 0 {
		return nil
	}
	return &g.watched[i]
}

// isWatched reports whether what a plugin says of its tools is: not that of a pinned one, which
// is compared with its pin, nor of a bundled one, which comes with the host.
func (h *Host) isWatched(p *config.Plugin) bool {
	if !p.Mounted && filepath.Dir(p.Path) == filepath.Clean(h.opts.BundledDir) {
		return false
	}
	_, pinned, err := h.pins.of(p.Name)
	return err == nil && !pinned
}

// definitionsKey tells configurations apart: plugins of the same name in two of them need
// not be the same.
func (h *Host) definitionsKey() string {
	if abs, err := filepath.Abs(h.pins.lock); err == nil && h.pins.lock != "" {
		return abs
	}
	return h.pins.lock
}

// definitionsBefore gives what is known of plugins from before; nil: nothing can be known.
func (h *Host) definitionsBefore(members []*member) map[string]state.Definitions {
	if !slices.ContainsFunc(members, func(m *member) bool { return m.err == nil && h.isWatched(&m.Plugin) }) {
		return nil
	}
	before, err := h.state.Definitions(h.definitionsKey())
	if err != nil {
		h.log.Warn("what plugins said of their tools before cannot be read, so changes are not noticed", "error", err)
		return nil
	}
	return before
}

// watch compares what a plugin says of its tools with what was approved. It gives the
// description to publish and, by full name, why tools are held back: those have the definition
// that was approved.
func (g *generation) watch(h *Host, m *member, before map[string]state.Definitions) (*tool.Description, map[string]string) {
	desc := m.desc.Load()
	if before == nil || !h.isWatched(&m.Plugin) {
		return desc, nil
	}
	w := watched{plugin: m.Name, tools: desc.Tools}
	var err error
	if w.sum, _, err = state.SumOf(desc.Tools); err != nil {
		g.problem("What plugin %s says of its tools cannot be compared with what it said before: %v", m.Name, err)
		return desc, nil
	}
	known, ok := before[m.Name]
	w.first = !ok
	var approved []tool.Definition
	if ok && known.Approved != w.sum {
		if approved, err = h.state.ApprovedTools(h.definitionsKey(), m.Name); err != nil {
			h.log.Warn("what a plugin said of its tools before cannot be read, so changes are not noticed", "plugin", m.Name, "error", err)
			return desc, nil
		}
		w.changes = definitionChanges(approved, desc.Tools)
		w.reported, w.since = known.Reported == w.sum, known.Since
	}
	held := make(map[string]string)
	if g.cfg.Trust.Approve && !h.pins.off && len(w.changes) > 0 {
		desc = w.hold(g, m, desc, approved, held)
	}
	g.watched = append(g.watched, w)
	return desc, held
}

// hold has the tools held back that are not as they were approved.
func (w *watched) hold(g *generation, m *member, desc *tool.Description, approved []tool.Definition, held map[string]string) *tool.Description {
	out := *desc
	out.Tools = slices.Clone(desc.Tools)
	for i := range out.Tools {
		d := &out.Tools[i]
		var how []string
		for _, c := range w.changes {
			if c.Tool == d.Name {
				how = append(how, c.What)
			}
		}
		if len(how) == 0 {
			continue
		}
		full := d.Name
		if m.Field != "" {
			full = m.Field + ":" + d.Name
		}
		held[full] = fmt.Sprintf("its definition is not the one that was approved (%s). Look at it (toolhost plugin info %s); if it is as it should be: toolhost plugin approve %s", strings.Join(how, "; "), m.Name, m.Name)
		w.held = append(w.held, full)
		// What it says now is not for anybody to read before it is approved.
		if k := slices.IndexFunc(approved, func(a tool.Definition) bool { return a.Name == d.Name }); k >= 0 {
			*d = approved[k]
		} else {
			*d = tool.Definition{Name: d.Name, Description: "A new tool, which was not approved.", Input: json.RawMessage(`{"type":"object"}`), Category: d.Category}
		}
	}
	if len(w.held) > 0 {
		g.problem("Plugin %s says other things of its tools than what was approved, so %s cannot be called. Look at them (toolhost plugin info %s), and approve of them: toolhost plugin approve %s", m.Name, strings.Join(w.held, ", "), m.Name, m.Name)
	}
	return &out
}

// definitionChanges are all differences between what a plugin said of its tools and what it
// says, also those that matter to no caller.
func definitionChanges(from, to []tool.Definition) []ToolChange {
	changes := registry.Compare(from, to)
	was := trust.Definitions(from)
	is := trust.Definitions(to)
	for _, d := range to {
		pin, there := was[d.Name]
		if there && pin != is[d.Name] && !slices.ContainsFunc(changes, func(c ToolChange) bool { return c.Tool == d.Name }) {
			changes = append(changes, ToolChange{Tool: d.Name, What: "its examples, category or result are others"})
		}
	}
	return changes
}

// reportDefinitions tells the operator of what plugins say otherwise of their tools than was
// approved, before that is published, once. What a plugin says first is taken as approved.
func (h *Host) reportDefinitions(g *generation) {
	if h.pins.off {
		return
	}
	for i := range g.watched {
		w := &g.watched[i]
		var err error
		switch {
		case w.first:
			err = h.state.Approve(h.definitionsKey(), w.plugin, w.tools, true)
		case len(w.changes) > 0 && !w.reported:
			told, failed := h.state.Reported(h.definitionsKey(), w.plugin, w.sum)
			w.reported, w.since, err = true, time.Now(), failed
			if told {
				texts := make([]string, len(w.changes))
				for i, c := range w.changes {
					texts[i] = c.String()
				}
				h.log.Warn("a plugin says other things of its tools than before: look at them with toolhost plugin info, and approve of them with toolhost plugin approve",
					"plugin", w.plugin, "changes", strings.Join(texts, "; "), "held back", strings.Join(w.held, ", "))
			}
		}
		if err != nil {
			h.log.Warn("what a plugin says of its tools could not be kept", "plugin", w.plugin, "error", err)
		}
	}
}

// unapproved says why a new version does not take the place of one that serves: its tools
// are not as they were approved; nil: they are, or that is only reported.
func (r *reload) unapproved(s *step) error {
	h, m := r.host, s.next
	if !r.cfg.Trust.Approve || h.pins.off || s.old == nil || s.old.err != nil || m.desc.Load() == nil || !h.isWatched(&m.Plugin) {
		return nil //nolint:nilerr // what is wrong with the lock file is told by who loads the plugin
	}
	now, _, err := state.SumOf(m.desc.Load().Tools)
	if err != nil {
		return err
	}
	serves, _, err := state.SumOf(s.old.desc.Load().Tools)
	if err != nil || serves == now { // what is held back is so already
		return err
	}
	known, err := h.state.Definitions(h.definitionsKey())
	if before, ok := known[m.Name]; err != nil || !ok || before.Approved == now {
		return err
	}
	approved, err := h.state.ApprovedTools(h.definitionsKey(), m.Name)
	if err != nil {
		return err
	}
	var how []string
	for _, c := range definitionChanges(approved, m.desc.Load().Tools) {
		how = append(how, c.String())
	}
	return tool.Errorf(tool.Security, "what it says of its tools is not what was approved (%s). Look at them (toolhost plugin info %s); if they are as they should be: toolhost plugin approve %s", strings.Join(how, "; "), m.Name, m.Name)
}

// ApprovePlugins approves of what plugins say of their tools now. The result says what that was,
// as it was before.
func ApprovePlugins(ctx context.Context, opts Options, names []string) (*Trust, error) {
	t, h, err := inspectTrust(ctx, opts)
	if err != nil {
		return nil, err
	}
	return t, errors.Join(t.approve(h, names), h.Close())
}

func (t *Trust) approve(h *Host, names []string) error {
	var known []string
	for _, p := range t.Plugins {
		known = append(known, p.Name)
	}
	var errs []error
	for _, n := range names {
		i := slices.Index(known, n)
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("there is no plugin %q.%s", n, suggest.DidYouMean(n, known)))
		case t.Plugins[i].Pinned:
			errs = append(errs, fmt.Errorf("plugin %s is pinned: toolhost plugin pin --accept-changes %s approves of what it is now", n, n))
		case t.Plugins[i].Error != "":
			errs = append(errs, fmt.Errorf("plugin %s cannot be approved: %s", n, t.Plugins[i].Error))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range names {
		if err := h.state.Approve(h.definitionsKey(), n, h.description(n).Tools, false); err != nil {
			return fmt.Errorf("what was approved of plugin %s cannot be kept: %w", n, err)
		}
	}
	return nil
}
