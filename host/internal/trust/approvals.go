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
	"toolhost.dev/host/internal/state/records"
)

// Approvals compares the definitions of tools with the approved definitions. The first definitions of a plugin are
// approved automatically, but the operator must approve later changes. Approvals is safe for concurrent use.
//
// Approvals monitors neither bundled plugins nor pinned plugins. [Pins] compares the definitions of pinned plugins.
type Approvals struct {
	db      *state.DB
	pins    *Pins
	bundled string
	log     *slog.Logger
}

// NewApprovals returns the approvals for the same configuration as pins. bundled is the directory of the bundled
// plugins.
func NewApprovals(db *state.DB, pins *Pins, bundled string, log *slog.Logger) *Approvals {
	return &Approvals{db: db, pins: pins, bundled: bundled, log: log}
}

// Subject describes a plugin whose definitions are compared.
type Subject struct {
	Name string
	// Path is the path of the binary.
	Path string
	// Namespace is the namespace of the plugin's tools. Empty means that the tools are agent tools.
	Namespace string
	// Mounted reports whether another program, such as an MCP server, defines the plugin's tools.
	Mounted bool
	// Definitions is the hash of the plugin's definitions if this version of the host computed it earlier. Nil means
	// that the hash is unknown.
	Definitions *records.Sum
}

// Review is the result of comparing one plugin's definitions with the approved definitions.
type Review struct {
	Plugin string
	// Changes are the differences. Since is the time when the operator was first notified of them.
	Changes []registry.Change
	Since   time.Time
	// Pending contains the sorted full names of the tools that cannot be called before an approval.
	Pending []string

	tools    []tool.Definition
	sum      records.Sum
	first    bool // whether the plugin has no earlier definitions
	reported bool // whether the operator was notified of Changes
}

// Key returns the database key of the configuration. Two configurations can use the same name for different plugins.
func (a *Approvals) Key() string {
	if abs, err := filepath.Abs(a.pins.Path()); err == nil && a.pins.Path() != "" {
		return abs
	}
	return a.pins.Path()
}

// monitored reports whether a plugin's definitions are compared with approved definitions.
func (a *Approvals) monitored(s Subject, pins *Pins) bool {
	if !s.Mounted && filepath.Dir(s.Path) == filepath.Clean(a.bundled) {
		return false
	}
	_, pinned, err := pins.Of(s.Name)
	return err == nil && !pinned
}

// Known contains the approved and reported definitions of plugins. The zero value disables the comparison.
type Known struct {
	definitions map[string]records.Definitions
	monitored   map[string]bool // names of the plugins whose definitions are compared
}

// Known returns the known definitions of plugins. It does not query the database if no plugin is monitored.
func (a *Approvals) Known(plugins []Subject) Known {
	pins, out := a.pins.Once(), Known{monitored: make(map[string]bool)}
	for _, s := range plugins {
		if a.monitored(s, pins) {
			out.monitored[s.Name] = true
		}
	}
	if len(out.monitored) == 0 {
		return Known{}
	}
	var err error
	if out.definitions, err = a.db.Definitions(a.Key()); err != nil {
		a.log.Warn("the approved definitions of tools cannot be read, so changes are not noticed", "error", err)
		return Known{}
	}
	return out
}

// Review compares a description with the approved description. If the argument "enforce" is true, the result "publish"
// contains the approved definitions of changed tools, and the result "pending" maps the changed tools to the reason why
// they cannot be called. A nil review means that the plugin is not monitored. The error means that the comparison
// failed.
func (a *Approvals) Review(s Subject, desc *tool.Description, known Known,
	enforce bool) (publish *tool.Description, pending map[string]string, review *Review, err error) {
	if !known.monitored[s.Name] {
		return desc, nil, nil, nil
	}
	r := &Review{Plugin: s.Name, tools: desc.Defined()}
	if s.Definitions != nil { // computing the hash takes a tenth of the start time of a host with many mounted servers
		r.sum = *s.Definitions
	} else if r.sum, _, err = records.SumOf(desc.Defined()); err != nil {
		return desc, nil, nil, err
	}
	before, ok := known.definitions[s.Name]
	r.first = !ok
	if !ok || before.Approved == r.sum {
		return desc, nil, r, nil
	}
	approved, err := a.db.ApprovedTools(a.Key(), s.Name)
	if err != nil {
		a.log.Warn("the approved definitions of a plugin's tools cannot be read, so changes are not noticed", "plugin", s.Name, "error", err)
		return desc, nil, nil, nil
	}
	r.Changes = compare(approved, desc.Defined())
	r.reported, r.Since = before.Reported == r.sum, before.Since
	if enforce && !a.pins.Off() && len(r.Changes) > 0 {
		desc, pending = r.withhold(s, desc, approved)
	}
	return desc, pending, r, nil
}

// noRole is an unknown role. A tool with it does not even have the role that follows from its name.
const noRole tool.Role = "none"

// withhold returns the description with the approved definitions in place of the changed definitions.
// Unapproved definitions must stay hidden. The map contains the reason why each changed tool cannot be called.
func (r *Review) withhold(s Subject, desc *tool.Description,
	approved []tool.Definition) (*tool.Description, map[string]string) {
	out := *desc
	out.Tools = slices.Clone(desc.Tools)
	out.Items = slices.DeleteFunc(slices.Clone(desc.Items), func(i tool.Item) bool {
		changed := slices.ContainsFunc(r.Changes, func(c registry.Change) bool { return c.Tool == i.FullName() })
		if changed {
			r.Pending = append(r.Pending, i.FullName())
		}
		return changed
	})
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
			*d = tool.Definition{Name: d.Name, Description: "A new tool, which was not approved.",
				Input: json.RawMessage(`{"type":"object"}`), Category: d.Category, Role: noRole}
		}
	}
	return &out, pending
}

// compare returns all differences between two descriptions, including differences that do not affect
// callers.
func compare(from, to []tool.Definition) []registry.Change {
	changes := registry.Compare(from, to)
	was := Definitions(from)
	is := Definitions(to)
	for _, d := range to {
		pin, there := was[d.Name]
		if there && pin != is[d.Name] &&
			!slices.ContainsFunc(changes, func(c registry.Change) bool { return c.Tool == d.Name }) {
			changes = append(changes, registry.Change{Tool: d.Name, What: "its examples, category or result differ"})
		}
	}
	return changes
}

// Report logs each changed definition once. It approves a plugin's first description. The caller must call Report
// before the reviewed descriptions are published.
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

// CheckSwap returns an error if the new version of a plugin has unapproved definitions. The caller must then keep the
// old version. CheckSwap ignores definitions that are already withheld.
func (a *Approvals) CheckSwap(s Subject, serving, next *tool.Description) error {
	if a.pins.Off() || !a.monitored(s, a.pins) {
		return nil
	}
	now, _, err := records.SumOf(next.Defined())
	if err != nil {
		return err
	}
	serves, _, err := records.SumOf(serving.Defined())
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
	for _, c := range compare(approved, next.Defined()) {
		how = append(how, c.String())
	}
	return tool.Errorf(tool.Security, "the definitions of its tools differ from the approved ones (%s). Check them with toolhost plugin info %s, then run toolhost plugin approve %s", strings.Join(how, "; "), s.Name, s.Name)
}

// Approve records definitions as approved.
func (a *Approvals) Approve(plugin string, tools []tool.Definition) error {
	return a.db.Approve(a.Key(), plugin, tools, false)
}
