// Package registry stores the registered tools with their plugin, name, schema and settings.
//
// [Registry.Enabled] returns the tool of a call. Readers see one snapshot of all tools, and [Registry.Add] replaces it.
// [Lives] tracks the state of each tool across registries.
package registry

import (
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
	// Plugin is the configured name of the plugin that serves the tool.
	Plugin string
	// Namespace is the field namespace. It is empty for an agent tool.
	Namespace string
	Enabled   bool
	// PendingApproval is the reason why the tool is pending approval and therefore not Enabled. It is empty if the tool is
	// approved.
	PendingApproval string
	// Timeout is the timeout of a call. Zero means the host's timeout. A negative value means that the tool measures its
	// own time.
	Timeout time.Duration
	// Commands means that the tool starts commands, and that these commands can call tools.
	Commands bool
	// Limits contains the operator's limits for the tool.
	Limits Limits
	// Life is the state of the tool. It is nil until [Lives.Publish].
	Life *Life

	schema func() (*tool.Schema, error)
}

// Schema returns the schema of the arguments. It is parsed on first use, because a run that makes one call would
// otherwise spend most of its start on the schemas of the other tools.
func (e *Entry) Schema() *tool.Schema {
	s, err := e.schema()
	if err != nil {
		return new(tool.Schema) // Enabled refuses calls of this tool
	}
	return s
}

// FullName returns the name under which the tool is called, such as "read" or "jira:search".
func (e *Entry) FullName() string {
	if e.Namespace != "" {
		return e.Namespace + ":" + e.Definition.Name
	}
	return e.Definition.Name
}

// Signature returns the data that the router needs to bind arguments.
func (e *Entry) Signature() tool.Signature {
	return tool.Signature{Schema: e.Schema(), Stdin: e.Definition.StdinParameter}
}

// Settings contains the operator's settings of a tool. Zero fields keep the tool's defaults.
type Settings struct {
	Enabled *bool
	// PendingApproval is the reason why the tool is pending approval. It is empty if the tool is approved.
	PendingApproval string
	Timeout         time.Duration
	Limits          Limits
}

// Limits configures how calls of a tool run.
type Limits struct {
	// Priority orders the calls that wait for a slot in the host. Higher priorities run first.
	Priority int
	// MaxConcurrent is the maximum number of concurrent calls. 0 means no limit. Queue is the maximum number of waiting
	// calls. 0 means no limit, and a negative Queue means that calls never wait.
	MaxConcurrent, Queue int
	// Attempts is the maximum number of tries of a call whose plugin dies, if a repetition is safe. RetryDelay is the
	// delay before the second repetition. 0 means the host's default.
	Attempts   int
	RetryDelay time.Duration
	// Fallback is the full name of the tool that runs if this tool fails. Empty means no fallback. FallbackParams maps
	// parameters of this tool to parameters of the fallback.
	Fallback       string
	FallbackParams map[string]string
}

// Registry is a set of tools. It is safe for concurrent use. Readers see a consistent snapshot.
type Registry struct {
	adding   sync.Mutex
	snapshot atomic.Pointer[snapshot]
}

type snapshot struct {
	byName  map[string]*Entry // by full name
	order   []*Entry
	aliases map[string]Alias
	failed  map[string]error // reasons by full name; only for names without a registered tool
}

// Alias is another name for a tool. An example is the name that models know from other programs.
type Alias struct {
	Name string
	// Namespace and Tool identify the tool.
	Namespace, Tool string
	// Params maps further parameter names to the tool's parameters; see [tool.Signature].
	Params map[string]string
	// Optional means that a missing tool or parameter is not an error.
	Optional bool
}

// fits returns an error if the tool lacks a parameter.
func (a *Alias) fits(e *Entry) error {
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if to := a.Params[name]; e.Schema().Param(to) == nil {
			return fmt.Errorf("parameter %q maps to %q, which %s does not have", name, to, a.Target())
		}
	}
	return nil
}

// Target returns the full name of the tool.
func (a *Alias) Target() string {
	if a.Namespace != "" {
		return a.Namespace + ":" + a.Tool
	}
	return a.Tool
}

// New returns an empty registry.
func New() *Registry {
	r := new(Registry)
	r.snapshot.Store(&snapshot{byName: make(map[string]*Entry)})
	return r
}

// Add registers the tools of a plugin under a namespace. An empty namespace means agent tools. An invalid tool does not
// prevent the registration of the others. The error contains a reason for each rejected tool. checked means that an
// earlier Add validated the same definitions, so they are not validated again.
func (r *Registry) Add(plugin, namespace string, desc *tool.Description, checked bool, settings func(name string) Settings) error {
	r.adding.Lock()
	defer r.adding.Unlock()
	old := r.snapshot.Load()
	next := &snapshot{byName: make(map[string]*Entry, len(old.byName)+len(desc.Tools)), order: slices.Clone(old.order), aliases: old.aliases, failed: maps.Clone(old.failed)}
	for k, v := range old.byName {
		next.byName[k] = v
	}
	var errs []error
	taken := make(map[string][]string) // names that are already used, by plugin
	for _, def := range desc.Tools {
		e, err := newEntry(plugin, namespace, def, checked, settings)
		if err == nil {
			if other := next.byName[e.FullName()]; other != nil {
				taken[other.Plugin] = append(taken[other.Plugin], e.FullName())
				continue
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q of plugin %s is not registered: %w", def.Name, plugin, err))
			if full := (&Entry{Definition: def, Namespace: namespace}).FullName(); def.Name != "" && next.byName[full] == nil {
				if next.failed == nil {
					next.failed = make(map[string]error)
				}
				next.failed[full] = err
			}
			continue
		}
		e.Commands = slices.Contains(desc.Capabilities, tool.CapabilityCommands)
		delete(next.failed, e.FullName())
		next.byName[e.FullName()] = e
		next.order = append(next.order, e)
	}
	for _, other := range slices.Sorted(maps.Keys(taken)) {
		names := taken[other]
		if other == plugin {
			errs = append(errs, fmt.Errorf("plugin %s declares %s more than once; only the first definition is registered", plugin, strings.Join(names, ", ")))
			continue
		}
		errs = append(errs, fmt.Errorf("plugin %s already serves %s, so plugin %s cannot use the same names; put one of the two plugins into a field namespace, or remove it", other, strings.Join(names, ", "), plugin))
	}
	r.snapshot.Store(next)
	return errors.Join(errs...)
}

// AddAlias registers an alias for a registered tool.
func (r *Registry) AddAlias(a Alias) error {
	r.adding.Lock()
	defer r.adding.Unlock()
	old := r.snapshot.Load()
	if err := old.check(a); err != nil {
		return err
	}
	next := *old
	if next.aliases = maps.Clone(old.aliases); next.aliases == nil {
		next.aliases = make(map[string]Alias)
	}
	next.aliases[a.Name] = a
	r.snapshot.Store(&next)
	return nil
}

// CheckAlias returns the error that AddAlias would return, without registering the alias.
func (r *Registry) CheckAlias(a Alias) error { return r.snapshot.Load().check(a) }

func (s *snapshot) check(a Alias) error {
	e := s.byName[a.Target()]
	switch {
	case slices.Contains(reserved, a.Name) || s.byName[a.Name] != nil:
		return fmt.Errorf("tool %q already has this name; rename the alias", a.Name)
	case e == nil:
		return fmt.Errorf("unknown tool %q; name an existing tool", a.Target())
	case a.Optional: // checked at each use
		return nil
	}
	return a.fits(e)
}

// Aliases returns all aliases by name. The caller must not change the map.
func (r *Registry) Aliases() map[string]Alias { return r.snapshot.Load().aliases }

// Alias implements the router's Tools.
func (r *Registry) Alias(name string) (namespace, target string, params map[string]string, ok bool) {
	s := r.snapshot.Load()
	a, ok := s.aliases[name]
	if ok && a.Optional && a.fits(s.byName[a.Target()]) != nil {
		return "", "", nil, false
	}
	return a.Namespace, a.Tool, a.Params, ok
}

// reserved lists the names that the host itself uses.
var reserved = []string{"help", "field", "tool"}

func newEntry(plugin, namespace string, def tool.Definition, checked bool, settings func(name string) Settings) (*Entry, error) {
	if !checked {
		if err := def.Validate(); err != nil {
			return nil, err
		}
	}
	if namespace == "" && slices.Contains(reserved, def.Name) {
		return nil, fmt.Errorf("the name is reserved; put the plugin into a field namespace, or rename the tool")
	}
	e := &Entry{Definition: def, schema: sync.OnceValues(func() (*tool.Schema, error) { return tool.ParseSchema(def.Input) }), Plugin: plugin, Namespace: namespace, Enabled: !def.Traits.Disabled, Timeout: def.DefaultTimeout}
	s := settings(e.FullName())
	if s.Enabled != nil {
		e.Enabled = *s.Enabled
	}
	if s.PendingApproval != "" {
		e.Enabled, e.PendingApproval = false, s.PendingApproval
	}
	e.Limits = s.Limits
	if s.Timeout > 0 {
		e.Timeout = s.Timeout
	}
	return e, nil
}

// All returns all entries in the order of registration. The caller must not change the slice.
func (r *Registry) All() []*Entry { return r.snapshot.Load().order }

// Lookup returns the tool with a namespace and a name, or nil. An empty namespace means agent tools. It also returns
// disabled tools.
func (r *Registry) Lookup(namespace, name string) *Entry {
	if namespace != "" {
		name = namespace + ":" + name
	}
	return r.snapshot.Load().byName[name]
}

// Find returns the tool with a full name, or nil. It also returns disabled tools.
func (r *Registry) Find(name string) *Entry { return r.snapshot.Load().byName[name] }

// Enabled returns a tool that can be called, or an error with the reason and the remedy.
func (r *Registry) Enabled(namespace, name string) (*Entry, error) {
	e := r.Lookup(namespace, name)
	switch {
	case e == nil:
		return nil, tool.Errorf(tool.NotFound, "Unknown tool %q. Run help for a list.", name)
	case e.PendingApproval != "":
		return nil, tool.Errorf(tool.Security, "Tool %s is pending approval: %s.", e.FullName(), e.PendingApproval)
	case !e.Enabled:
		return nil, tool.Errorf(tool.PermissionDenied, "Tool %s is disabled. Enable it in the configuration: tool %q { enabled = true }.", e.FullName(), e.FullName())
	}
	if _, err := e.schema(); err != nil {
		return nil, tool.Errorf(tool.Internal, "The input schema of %s is not valid: %w. Fix plugin %s.", e.FullName(), err, e.Plugin)
	}
	return e, nil
}

// Agent implements the router's Tools. It also finds disabled tools, so that the shell does not run their names as
// commands.
func (r *Registry) Agent(name string) (tool.Signature, bool) { return r.Field("", name) }

// Field implements the router's Tools.
func (r *Registry) Field(namespace, name string) (tool.Signature, bool) {
	e := r.Lookup(namespace, name)
	if e == nil {
		return tool.Signature{}, false
	}
	return e.Signature(), true
}

// AgentNames implements the router's Tools.
func (r *Registry) AgentNames() []string { return r.FieldNames("") }

// FieldNames implements the router's Tools.
func (r *Registry) FieldNames(namespace string) []string {
	var out []string
	for _, e := range r.All() {
		if e.Namespace == namespace && e.Enabled {
			out = append(out, e.Definition.Name)
		}
	}
	return out
}

// Namespaces implements the router's Tools.
func (r *Registry) Namespaces() []string {
	var out []string
	for _, e := range r.All() {
		if e.Namespace != "" && !slices.Contains(out, e.Namespace) {
			out = append(out, e.Namespace)
		}
	}
	return out
}
