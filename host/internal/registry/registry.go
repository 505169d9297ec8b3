// Package registry stores the registered tools with their plugins, names, schemas and settings.
//
// [Registry.Enabled] returns the tool for a call. Readers use an immutable snapshot of all tools. [Registry.Add]
// replaces the snapshot. [Lives] tracks the state of each tool across registries.
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"
)

// Entry is one registered tool.
type Entry struct {
	Definition tool.Definition
	// Plugin is the name of the tool's plugin in the configuration.
	Plugin string
	// Namespace is the field namespace of the tool, or empty for an agent tool.
	Namespace string
	Enabled   bool
	// Overridden reports whether the operator enabled or disabled the tool at run time.
	Overridden bool
	// PendingApproval is the reason why the tool cannot be called before an approval. It is empty for an approved tool.
	PendingApproval string
	// Bundled reports that the tool comes with the host.
	Bundled bool
	// Keywords contains the operator's words for the search.
	Keywords []string
	// Timeout is the timeout of each call. Zero means the default timeout of the host. A negative value means that the
	// tool controls its own timeout.
	Timeout time.Duration
	// Commands reports whether the tool runs commands that can call other tools.
	Commands bool
	// Limits contains the operator's limits for the tool.
	Limits Limits
	// Life is the state of the tool. It is nil before [Lives.Publish].
	Life *Life

	schema func() (*tool.Schema, error)
}

// Schema returns the schema of the tool's arguments. It parses the schema on first use. A host that runs only one call
// would otherwise spend most of its start on the schemas of other tools.
func (e *Entry) Schema() *tool.Schema {
	s, err := e.schema()
	if err != nil {
		return new(tool.Schema) // not used, because Enabled rejects calls of the tool
	}
	return s
}

// Role returns the role of the tool. A tool in a namespace has none.
func (e *Entry) Role() tool.Role {
	if e.Namespace != "" {
		return ""
	}
	return e.Definition.Role
}

// Has reports whether the tool has a role.
func (e *Entry) Has(role tool.Role) bool { return e.Role() == role }

// FullName returns the name of the tool in calls, such as "read" or "jira:search".
func (e *Entry) FullName() string {
	if e.Namespace != "" {
		return e.Namespace + ":" + e.Definition.Name
	}
	return e.Definition.Name
}

// Signature returns the part of the definition that the router needs to bind arguments.
func (e *Entry) Signature() tool.Signature {
	return tool.Signature{Schema: e.Schema(), Stdin: e.Definition.StdinParameter, Program: e.Definition.Shares()}
}

// Settings holds the operator's settings for a tool. A zero field keeps the tool's default.
type Settings struct {
	Enabled *bool
	// Overridden reports whether Enabled was set at run time and not by the configuration.
	Overridden bool
	// PendingApproval is the reason why the tool cannot be called before an approval. It is empty for an approved tool.
	PendingApproval string
	// Bundled reports that the tool comes with the host.
	Bundled bool
	// Verbatim reports that another program gets the arguments as the caller sent them, without defaults.
	Verbatim bool
	// Keywords contains the operator's words for the search.
	Keywords []string
	Timeout  time.Duration
	Limits   Limits
}

// Limits holds the limits for calls of a tool.
type Limits struct {
	// Priority determines the order of waiting calls when the host has a free slot. The highest priority runs first.
	Priority int
	// MaxConcurrent is the maximum number of concurrent calls. Zero means no limit. Queue is the maximum number of
	// waiting calls. Zero means no limit, and a negative Queue means that no call can wait.
	MaxConcurrent, Queue int
	// Attempts is the maximum number of tries for a call whose plugin dies. Only calls that are safe to repeat are
	// tried again. RetryDelay is the delay before the third try. Zero values mean the defaults of the host.
	Attempts   int
	RetryDelay time.Duration
	// Fallback is the full name of the tool that runs if this tool fails. Empty means that no other tool runs.
	// FallbackParams maps parameters of this tool to parameters of the fallback tool.
	Fallback       string
	FallbackParams map[string]string
}

// Registry is a set of tools. It is safe for concurrent use. Each method that reads the registry uses one consistent
// snapshot.
type Registry struct {
	adding   sync.Mutex
	snapshot atomic.Pointer[snapshot]
}

type snapshot struct {
	byName   map[string]*Entry // tools by full name
	order    []*Entry
	roles    map[tool.Role]*Entry
	reserved map[string]string // plugins by the names of bundled tools that are not loaded
	aliases  map[string]Alias
	habits   map[string]Alias
	absent   map[string]string // advice by the name of a tool that the configuration does not use
	failed   map[string]error  // errors by the full name of tools that could not be registered
	items    []*Item
	former   *snapshot // see Keep
	rivals   []string
	// functions returns the function names of all tools. A change of the snapshot needs a new function.
	functions func() map[string]string
}

// publish makes a snapshot the current one. Before this call, no other goroutine may use the snapshot.
func (r *Registry) publish(next *snapshot) {
	next.functions = sync.OnceValue(next.functionNames)
	r.snapshot.Store(next)
}

// change makes a changed copy of the snapshot the current one.
func (r *Registry) change(f func(next *snapshot)) {
	r.adding.Lock()
	defer r.adding.Unlock()
	next := *r.snapshot.Load()
	f(&next)
	r.publish(&next)
}

// New returns an empty registry.
func New() *Registry {
	r := new(Registry)
	r.publish(&snapshot{byName: make(map[string]*Entry), roles: make(map[tool.Role]*Entry)})
	return r
}

// Addition contains the data that a plugin registers; see [Registry.Add].
type Addition struct {
	Plugin, Namespace string
	Description       *tool.Description
	Checked           bool
	Settings          func(name string) Settings
}

// Add registers the tools of a plugin in a namespace. An empty namespace means that the tools are agent tools. Add
// registers all valid tools. The error contains the reason for each invalid tool. If checked is true, an earlier Add
// validated the same definitions, and Add does not validate them again.
func (r *Registry) Add(plugin, namespace string, desc *tool.Description, checked bool,
	settings func(name string) Settings) error {
	return r.AddAll(Addition{plugin, namespace, desc, checked, settings})[0]
}

// AddAll adds the tools of plugins in their order, as Add does. The result contains the error or nil for each plugin.
// AddAll copies the registry once, so a registry with many plugins is built faster than with Add.
func (r *Registry) AddAll(all ...Addition) []error {
	r.adding.Lock()
	defer r.adding.Unlock()
	old := r.snapshot.Load()
	next := &snapshot{
		byName: maps.Clone(old.byName), order: slices.Clone(old.order), roles: maps.Clone(old.roles),
		reserved: old.reserved, aliases: old.aliases, habits: old.habits, absent: old.absent,
		failed: maps.Clone(old.failed), items: slices.Clone(old.items),
	}
	errs, bundled, kept := make([]error, len(all)), next.bundledNames(all), old.kept(all)
	for i, a := range all {
		errs[i] = next.add(a, bundled, kept)
	}
	r.publish(next)
	return errs
}

// add adds the tools of a plugin to a snapshot that no reader has. The argument "bundled" maps each
// name that is kept for a bundled tool to its plugin.
func (s *snapshot) add(a Addition, bundled map[string]string, kept kept) error {
	plugin, desc := a.Plugin, a.Description
	s.addItems(plugin, a.Namespace, desc.Items)
	commands := slices.Contains(desc.Capabilities, tool.CapabilityCommands)
	var refused []refusal
	taken := make(map[string][]string) // names that other plugins already use, by plugin
	for _, def := range desc.Tools {
		e, err := newEntry(plugin, a.Namespace, def, a.Checked, a.Settings)
		if err == nil {
			owner := cmp.Or(bundled[e.FullName()], kept.from(e, kept.names[e.FullName()]))
			if other := s.byName[e.FullName()]; other != nil {
				owner = other.Plugin
			} else if e.Bundled {
				owner = ""
			}
			if owner != "" {
				taken[owner] = append(taken[owner], e.FullName())
				continue
			}
		}
		if err != nil {
			refused = append(refused, refusal{def.Name, err})
			if full := (&Entry{Definition: def, Namespace: a.Namespace}).FullName(); def.Name != "" &&
				s.byName[full] == nil {
				if s.failed == nil {
					s.failed = make(map[string]error)
				}
				s.failed[full] = err
			}
			continue
		}
		e.Definition.Version = cmp.Or(e.Definition.Version, desc.Version)
		e.Commands = commands
		s.assign(e, kept)
		delete(s.failed, e.FullName())
		s.byName[e.FullName()] = e
		s.order = append(s.order, e)
	}
	errs := refusals(plugin, refused)
	for _, other := range slices.Sorted(maps.Keys(taken)) {
		names := taken[other]
		if other == plugin {
			errs = append(errs, fmt.Errorf("plugin %s declares %s more than once; only the first definition is registered; rename or remove the others in the plugin", plugin, strings.Join(names, ", ")))
			continue
		}
		errs = append(errs, fmt.Errorf("plugin %s already serves %s, so plugin %s cannot use the same names; give one of the two plugins its own namespace (field = \"NAME\" in its block), or turn one of them off (enabled = false)", other, strings.Join(names, ", "), plugin))
	}
	return errors.Join(errs...)
}

// refusal is a tool that cannot be registered, with the reason.
type refusal struct {
	tool string
	err  error
}

// A plugin with more than maxRefusals invalid tools has a single error with the first shownRefusals reasons.
const (
	maxRefusals   = 8
	shownRefusals = 3
)

// refusals returns the errors about the tools of a plugin that cannot be registered. A server with many such tools has
// one error, because its errors would hide all others.
func refusals(plugin string, all []refusal) (errs []error) {
	if len(all) <= maxRefusals {
		for _, r := range all {
			errs = append(errs, fmt.Errorf("tool %q of plugin %s is not registered: %w", r.tool, plugin, r.err))
		}
		return errs
	}
	var reasons []string
	for _, r := range all[:shownRefusals] {
		reasons = append(reasons, fmt.Sprintf("%q: %v", r.tool, r.err))
	}
	return []error{fmt.Errorf("%d tools of plugin %s are not registered; %s; toolhost status lists all of them", len(all), plugin, strings.Join(reasons, "; "))}
}

// reserved lists the names that the host itself uses.
var reserved = []string{"help", "field", "tool"}

func newEntry(plugin, namespace string, def tool.Definition, checked bool,
	settings func(name string) Settings) (*Entry, error) {
	if !checked {
		if err := def.Validate(); err != nil {
			return nil, err
		}
	}
	if namespace == "" && slices.Contains(reserved, def.Name) {
		return nil, fmt.Errorf("the name is reserved; put the plugin into a field namespace, or rename the tool")
	}
	if def.Deprecated != "" {
		def.Description = strings.TrimSpace(def.Description) + "\nDeprecated: " + def.Deprecated
	}
	e := &Entry{Definition: def, Plugin: plugin, Namespace: namespace, Enabled: !def.Traits.Disabled,
		Timeout: def.DefaultTimeout}
	s := settings(e.FullName())
	e.schema = sync.OnceValues(func() (*tool.Schema, error) {
		schema, err := tool.ParseSchema(def.Input)
		if err == nil && s.Verbatim {
			schema = schema.Verbatim()
		}
		return schema, err
	})
	e.Definition.Input = shown(def.Input)
	if s.Enabled != nil {
		e.Enabled, e.Overridden = *s.Enabled, s.Overridden
	}
	if s.PendingApproval != "" {
		e.Enabled, e.PendingApproval = false, s.PendingApproval
	}
	e.Limits, e.Bundled, e.Keywords = s.Limits, s.Bundled, s.Keywords
	if s.Timeout > 0 {
		e.Timeout = s.Timeout
	}
	return e, nil
}

// All returns all tools in the order of their registration. The caller must not modify the slice.
func (r *Registry) All() []*Entry { return r.snapshot.Load().order }

// Lookup returns the tool with the given namespace and name, also if it is disabled. It returns nil for an unknown
// tool. An empty namespace means agent tools.
func (r *Registry) Lookup(namespace, name string) *Entry {
	if namespace != "" {
		name = namespace + ":" + name
	}
	return r.snapshot.Load().byName[name]
}

// Find returns the tool with the given full name, also if it is disabled. It returns nil for an unknown tool.
func (r *Registry) Find(name string) *Entry { return r.snapshot.Load().byName[name] }

// Enabled returns a tool if it can be called. Otherwise it returns an error with the reason and the remedy.
func (r *Registry) Enabled(namespace, name string) (*Entry, error) {
	e := r.Lookup(namespace, name)
	switch {
	case e == nil:
		return nil, tool.Errorf(tool.NotFound, "Unknown tool %q. Run help for a list.", name)
	case e.PendingApproval != "":
		return nil, tool.Errorf(tool.Security, "Tool %s is pending approval: %s.", e.FullName(), e.PendingApproval)
	case !e.Enabled && e.Overridden:
		return nil, tool.Errorf(tool.PermissionDenied, "The operator disabled tool %s in the running toolhost. To enable it, the operator runs: toolhost plugin enable %s.", e.FullName(), e.FullName())
	case !e.Enabled:
		return nil, tool.Errorf(tool.PermissionDenied, "Tool %s is disabled. Enable it in the configuration: tool %q { enabled = true }.", e.FullName(), e.FullName())
	}
	if _, err := e.schema(); err != nil {
		return nil, tool.Errorf(tool.Internal, "The input schema of %s is not valid: %w. Fix plugin %s.", e.FullName(), err, e.Plugin)
	}
	return e, nil
}

// Agent implements the interface Tools of package router. It also returns disabled tools. Otherwise the shell would run
// the name of a disabled tool as a command.
func (r *Registry) Agent(name string) (tool.Signature, bool) { return r.Field("", name) }

// Field implements the interface Tools of package router.
func (r *Registry) Field(namespace, name string) (tool.Signature, bool) {
	e := r.Lookup(namespace, name)
	if e == nil {
		return tool.Signature{}, false
	}
	return e.Signature(), true
}

// AgentNames implements the interface Tools of package router.
func (r *Registry) AgentNames() []string { return r.FieldNames("") }

// FieldNames implements the interface Tools of package router.
func (r *Registry) FieldNames(namespace string) []string {
	var out []string
	for _, e := range r.All() {
		if e.Namespace == namespace && e.Enabled {
			out = append(out, e.Definition.Name)
		}
	}
	return out
}

// Namespaces implements the interface Tools of package router.
func (r *Registry) Namespaces() []string {
	var out []string
	for _, e := range r.All() {
		if e.Namespace != "" && !slices.Contains(out, e.Namespace) {
			out = append(out, e.Namespace)
		}
	}
	return out
}
