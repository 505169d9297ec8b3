package trust

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
)

// Approvals compares the definitions of tools with those that the operator approved: the ones that a plugin
// described first, or that were approved since. It is safe for concurrent use.
//
// It monitors plugins that are neither pinned, because [Pins] compares those, nor bundled with the host.
type Approvals struct {
	db      *state.DB
	pins    *Pins
	bundled string
	log     *slog.Logger
}

// NewApprovals returns the approvals of the configuration that pins belongs to. bundled is the directory of the
// bundled plugins.
func NewApprovals(db *state.DB, pins *Pins, bundled string, log *slog.Logger) *Approvals {
	return &Approvals{db: db, pins: pins, bundled: bundled, log: log}
}

// Subject is a plugin whose definitions are compared.
type Subject struct {
	Name string
	// Path of the binary.
	Path string
	// Namespace of its tools. Empty means that they are agent tools.
	Namespace string
	// Mounted reports whether its tools come from elsewhere, such as from an MCP server.
	Mounted bool
}

// Review is the comparison of one plugin's definitions with the approved ones.
type Review struct {
	Plugin string
	// Changes are the differences. Since is when they were first reported to the operator.
	Changes []registry.Change
	Since   time.Time
	// Pending are the full names of the tools that cannot be called before approval, sorted.
	Pending []string

	tools    []tool.Definition
	sum      state.Sum
	first    bool // the plugin was never described before
	reported bool // the operator was told of Changes
}

// Key distinguishes configurations: plugins of the same name need not be the same in two of them.
func (a *Approvals) Key() string {
	if abs, err := filepath.Abs(a.pins.Path()); err == nil && a.pins.Path() != "" {
		return abs
	}
	return a.pins.Path()
}

// monitored reports whether a plugin's definitions are compared with approved ones.
func (a *Approvals) monitored(s Subject) bool {
	if !s.Mounted && filepath.Dir(s.Path) == filepath.Clean(a.bundled) {
		return false
	}
	_, pinned, err := a.pins.Of(s.Name)
	return err == nil && !pinned
}

// Known is what was described and approved before, by plugin. A nil Known means that nothing can be compared.
type Known map[string]state.Definitions

// Known returns what is known about plugins. It reads nothing if none of them is monitored.
func (a *Approvals) Known(plugins []Subject) Known {
	if !slices.ContainsFunc(plugins, a.monitored) {
		return nil
	}
	known, err := a.db.Definitions(a.Key())
	if err != nil {
		a.log.Warn("the approved definitions of tools cannot be read, so changes are not noticed", "error", err)
		return nil
	}
	return known
}

// Review compares a description with the approved one. If enforce is set, it returns the description to publish
// instead, in which changed tools have their approved definition, and by full name why those cannot be called.
// The review is nil if the plugin is not monitored. The error says that the description cannot be compared.
func (a *Approvals) Review(s Subject, desc *tool.Description, known Known, enforce bool) (publish *tool.Description, pending map[string]string, review *Review, err error) {
	if known == nil || !a.monitored(s) {
		return desc, nil, nil, nil
	}
	r := &Review{Plugin: s.Name, tools: desc.Tools}
	if r.sum, _, err = state.SumOf(desc.Tools); err != nil {
		return desc, nil, nil, err
	}
	before, ok := known[s.Name]
	r.first = !ok
	if !ok || before.Approved == r.sum {
		return desc, nil, r, nil
	}
	approved, err := a.db.ApprovedTools(a.Key(), s.Name)
	if err != nil {
		a.log.Warn("the approved definitions of a plugin's tools cannot be read, so changes are not noticed", "plugin", s.Name, "error", err)
		return desc, nil, nil, nil
	}
	r.Changes = compare(approved, desc.Tools)
	r.reported, r.Since = before.Reported == r.sum, before.Since
	if enforce && !a.pins.Off() && len(r.Changes) > 0 {
		desc, pending = r.withhold(s, desc, approved)
	}
	return desc, pending, r, nil
}

// withhold returns the description with the approved definitions in place of the changed ones, and why those tools
// cannot be called. Nobody may read a definition that is not approved.
func (r *Review) withhold(s Subject, desc *tool.Description, approved []tool.Definition) (*tool.Description, map[string]string) {
	out := *desc
	out.Tools = slices.Clone(desc.Tools)
	pending := make(map[string]string)
	for i := range out.Tools {
		d := &out.Tools[i]
		var how []string
		for _, c := range r.Changes {
			if c.Tool == d.Name {
				how = append(how, c.What)
			}
		}
		if len(how) == 0 {
			continue
		}
		full := d.Name
		if s.Namespace != "" {
			full = s.Namespace + ":" + d.Name
		}
		pending[full] = fmt.Sprintf("its definition differs from the approved one (%s). Check it with toolhost plugin info %s, then run toolhost plugin approve %s", strings.Join(how, "; "), s.Name, s.Name)
		r.Pending = append(r.Pending, full)
		if k := slices.IndexFunc(approved, func(a tool.Definition) bool { return a.Name == d.Name }); k >= 0 {
			*d = approved[k]
		} else {
			*d = tool.Definition{Name: d.Name, Description: "A new tool, which was not approved.", Input: json.RawMessage(`{"type":"object"}`), Category: d.Category}
		}
	}
	return &out, pending
}

// compare returns all differences between two descriptions, including those that no caller notices.
func compare(from, to []tool.Definition) []registry.Change {
	changes := registry.Compare(from, to)
	was := Definitions(from)
	is := Definitions(to)
	for _, d := range to {
		pin, there := was[d.Name]
		if there && pin != is[d.Name] && !slices.ContainsFunc(changes, func(c registry.Change) bool { return c.Tool == d.Name }) {
			changes = append(changes, registry.Change{Tool: d.Name, What: "its examples, category or result are others"})
		}
	}
	return changes
}

// Report logs changed definitions, once each. It takes a plugin's first description as approved. Call it before the
// reviewed descriptions are published.
func (a *Approvals) Report(reviews []*Review) {
	if a.pins.Off() {
		return
	}
	for _, r := range reviews {
		var err error
		switch {
		case r.first:
			err = a.db.Approve(a.Key(), r.Plugin, r.tools, true)
		case len(r.Changes) > 0 && !r.reported:
			err = a.report(r)
		}
		if err != nil {
			a.log.Warn("the definitions of a plugin's tools could not be stored", "plugin", r.Plugin, "error", err)
		}
	}
}

func (a *Approvals) report(r *Review) error {
	isNew, err := a.db.Reported(a.Key(), r.Plugin, r.sum)
	r.reported, r.Since = true, time.Now()
	if isNew {
		texts := make([]string, len(r.Changes))
		for i, c := range r.Changes {
			texts[i] = c.String()
		}
		a.log.Warn("a plugin changed the definitions of its tools: check them with toolhost plugin info, then approve them with toolhost plugin approve",
			"plugin", r.Plugin, "changes", strings.Join(texts, "; "), "pending", strings.Join(r.Pending, ", "))
	}
	return err
}

// CheckSwap returns an error if a new version of a plugin must not replace the one that is serving, because its
// definitions are not approved. Definitions that are withheld already do not count.
func (a *Approvals) CheckSwap(s Subject, serving, next *tool.Description) error {
	if a.pins.Off() || !a.monitored(s) {
		return nil
	}
	now, _, err := state.SumOf(next.Tools)
	if err != nil {
		return err
	}
	serves, _, err := state.SumOf(serving.Tools)
	if err != nil || serves == now {
		return err
	}
	known, err := a.db.Definitions(a.Key())
	if before, ok := known[s.Name]; err != nil || !ok || before.Approved == now {
		return err
	}
	approved, err := a.db.ApprovedTools(a.Key(), s.Name)
	if err != nil {
		return err
	}
	var how []string
	for _, c := range compare(approved, next.Tools) {
		how = append(how, c.String())
	}
	return tool.Errorf(tool.Security, "the definitions of its tools differ from the approved ones (%s). Check them with toolhost plugin info %s, then run toolhost plugin approve %s", strings.Join(how, "; "), s.Name, s.Name)
}

// Approve records definitions as approved.
func (a *Approvals) Approve(plugin string, tools []tool.Definition) error {
	return a.db.Approve(a.Key(), plugin, tools, false)
}
