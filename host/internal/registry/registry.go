// Package registry knows every tool there is: which plugin serves it, under which
// name, with which schema, and what the operator set for it.
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
	// Plugin is the configured name of the plugin that serves it.
	Plugin string
	// Namespace is the field namespace; empty: an agent tool.
	Namespace string
	Enabled   bool
	// Held says why the tool is not Enabled, whatever its settings are; empty: it is not held.
	Held string
	// Timeout of a call; 0: the host's; negative: the tool keeps its own time.
	Timeout time.Duration
	// Commands: it starts commands, which may call tools.
	Commands bool
	// Limits are the operator's.
	Limits Limits
	// Life of the tool, once it is published; see [Lives.Publish].
	Life *Life

	schema func() (*tool.Schema, error)
}

// Schema of the arguments. It is parsed when it is first wanted, since a run that makes one
// call would else spend most of its start on the schemas of the other tools.
func (e *Entry) Schema() *tool.Schema {
	s, err := e.schema()
	if err != nil {
		return new(tool.Schema) // see Enabled, which refuses the call
	}
	return s
}

// FullName is the name by which the tool is called: "read", or "jira:search".
func (e *Entry) FullName() string {
	if e.Namespace != "" {
		return e.Namespace + ":" + e.Definition.Name
	}
	return e.Definition.Name
}

// Signature is what binding arguments needs.
func (e *Entry) Signature() tool.Signature {
	return tool.Signature{Schema: e.Schema(), Stdin: e.Definition.StdinParameter}
}

// Settings are what the operator says of a tool; zero values mean "as the tool says".
type Settings struct {
	Enabled *bool
	// Held says why the tool must not be called; empty: nothing is against it.
	Held    string
	Timeout time.Duration
	Limits  Limits
}

// Limits say how calls of a tool are run.
type Limits struct {
	// Priority among calls that wait for room in the host; higher goes first.
	Priority int
	// MaxConcurrent calls run at once; 0: any number. Queue bounds how many more wait; 0: any
	// number; negative: none.
	MaxConcurrent, Queue int
	// Attempts of a call whose plugin dies under it, where that is safe, and the delay before the
	// second repetition; 0: the host's.
	Attempts   int
	RetryDelay time.Duration
	// Fallback is the full name of a tool that is tried in its place; empty: none.
	// FallbackParams gives parameters their names there.
	Fallback       string
	FallbackParams map[string]string
}

// Registry is safe for concurrent use: readers see one snapshot or the next.
type Registry struct {
	adding   sync.Mutex
	snapshot atomic.Pointer[snapshot]
}

type snapshot struct {
	byName  map[string]*Entry // by full name
	order   []*Entry
	aliases map[string]Alias
	failed  map[string]error // by full name, which nothing else has
}

// Alias is another name for a tool, so that who is used to that finds it.
type Alias struct {
	Name string
	// Namespace and Tool are what it stands for.
	Namespace, Tool string
	// Params are further names of its parameters; see [tool.Signature].
	Params map[string]string
	// Optional: it is no mistake when there is no such tool, or none with such parameters.
	Optional bool
}

// fits tells whether the tool has the parameters.
func (a *Alias) fits(e *Entry) error {
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if to := a.Params[name]; e.Schema().Param(to) == nil {
			return fmt.Errorf("its parameter %q is for %q, which %s does not have", name, to, a.Target())
		}
	}
	return nil
}

// Target is the full name of the tool.
func (a *Alias) Target() string {
	if a.Namespace != "" {
		return a.Namespace + ":" + a.Tool
	}
	return a.Tool
}

// New makes an empty registry.
func New() *Registry {
	r := new(Registry)
	r.snapshot.Store(&snapshot{byName: make(map[string]*Entry)})
	return r
}

// Add registers the tools of a plugin under a namespace (empty: as agent tools). A
// tool that cannot be registered does not keep the others out; the error says what
// was wrong with each. checked says that nothing was wrong when the same was added before.
func (r *Registry) Add(plugin, namespace string, desc *tool.Description, checked bool, settings func(name string) Settings) error {
	r.adding.Lock()
	defer r.adding.Unlock()
	old := r.snapshot.Load()
	next := &snapshot{byName: make(map[string]*Entry, len(old.byName)+len(desc.Tools)), order: slices.Clone(old.order), aliases: old.aliases, failed: maps.Clone(old.failed)}
	for k, v := range old.byName {
		next.byName[k] = v
	}
	var errs []error
	taken := make(map[string][]string) // by the plugin that has them already
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
			errs = append(errs, fmt.Errorf("plugin %s declares %s more than once: only the first of that name is registered", plugin, strings.Join(names, ", ")))
			continue
		}
		errs = append(errs, fmt.Errorf("plugin %s already serves %s, so plugin %s does not: give one of the two a field namespace, or remove it", other, strings.Join(names, ", "), plugin))
	}
	r.snapshot.Store(next)
	return errors.Join(errs...)
}

// AddAlias registers another name for a tool that is registered. The error says what
// is wrong with it.
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

// CheckAlias says what is wrong with an alias, without registering it.
func (r *Registry) CheckAlias(a Alias) error { return r.snapshot.Load().check(a) }

func (s *snapshot) check(a Alias) error {
	e := s.byName[a.Target()]
	switch {
	case slices.Contains(reserved, a.Name) || s.byName[a.Name] != nil:
		return fmt.Errorf("there is a tool %q already: an alias needs a name of its own", a.Name)
	case e == nil:
		return fmt.Errorf("there is no tool %q for it to stand for", a.Target())
	case a.Optional: // it is looked at when somebody uses it
		return nil
	}
	return a.fits(e)
}

// Aliases gives every alias by its name. Do not change it.
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

// reserved names mean something to the host itself.
var reserved = []string{"help", "field", "tool"}

func newEntry(plugin, namespace string, def tool.Definition, checked bool, settings func(name string) Settings) (*Entry, error) {
	if !checked {
		if err := def.Validate(); err != nil {
			return nil, err
		}
	}
	if namespace == "" && slices.Contains(reserved, def.Name) {
		return nil, fmt.Errorf("the name is reserved: give the plugin a field namespace, or rename the tool")
	}
	e := &Entry{Definition: def, schema: sync.OnceValues(func() (*tool.Schema, error) { return tool.ParseSchema(def.Input) }), Plugin: plugin, Namespace: namespace, Enabled: !def.Traits.Disabled, Timeout: def.DefaultTimeout}
	s := settings(e.FullName())
	if s.Enabled != nil {
		e.Enabled = *s.Enabled
	}
	if s.Held != "" {
		e.Enabled, e.Held = false, s.Held
	}
	e.Limits = s.Limits
	if s.Timeout > 0 {
		e.Timeout = s.Timeout
	}
	return e, nil
}

// All gives every entry, in the order of registration. Do not change it.
func (r *Registry) All() []*Entry { return r.snapshot.Load().order }

// Lookup finds a tool by namespace (empty: agent tools) and name, disabled ones too.
func (r *Registry) Lookup(namespace, name string) *Entry {
	if namespace != "" {
		name = namespace + ":" + name
	}
	return r.snapshot.Load().byName[name]
}

// Find finds a tool by its full name, disabled ones too.
func (r *Registry) Find(name string) *Entry { return r.snapshot.Load().byName[name] }

// Enabled finds a tool that may be called. The error says why not, and what to do.
func (r *Registry) Enabled(namespace, name string) (*Entry, error) {
	e := r.Lookup(namespace, name)
	switch {
	case e == nil:
		return nil, tool.Errorf(tool.NotFound, "There is no tool %q. Type help for what there is.", name)
	case e.Held != "":
		return nil, tool.Errorf(tool.Security, "The tool %s is held back: %s.", e.FullName(), e.Held)
	case !e.Enabled:
		return nil, tool.Errorf(tool.PermissionDenied, "The tool %s is disabled. Enable it in the configuration: tool %q { enabled = true }.", e.FullName(), e.FullName())
	}
	if _, err := e.schema(); err != nil {
		return nil, tool.Errorf(tool.Internal, "The input schema of %s is not valid: %w. Plugin %s must be mended.", e.FullName(), err, e.Plugin)
	}
	return e, nil
}

// Agent implements the router's Tools. A disabled tool is known, so that its name does
// not fall through to the shell.
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
