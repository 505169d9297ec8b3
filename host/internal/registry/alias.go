package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Alias is another name for a tool, for example a name that models know from other programs.
type Alias struct {
	Name string
	// Namespace and Tool identify the tool.
	Namespace, Tool string
	Habit
	// Optional reports that the alias is skipped without an error if the tool or a parameter does not exist.
	Optional bool
}

// Habit describes arguments that agents know from other programs.
type Habit struct {
	// Params maps additional parameter names to the tool's own parameter names; see [tool.Signature].
	Params map[string]string
	// Convert converts the arguments of a call and returns the tool that accepts the converted arguments. A nil Convert
	// leaves the arguments unchanged.
	Convert func(args map[string]json.RawMessage) (tool string, out map[string]json.RawMessage, err error)
}

// fits returns an error if the tool lacks a parameter of the alias.
func (a *Alias) fits(e *Entry) error {
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if to := a.Params[name]; to != "" && e.Schema().Param(to) == nil {
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

// AddAlias registers an alias for a registered tool.
func (r *Registry) AddAlias(a Alias) error {
	return r.AddAliases(a)[0]
}

// AddAliases registers aliases for registered tools. It returns an error for each alias. The error is nil if the alias
// was registered.
func (r *Registry) AddAliases(aliases ...Alias) []error {
	r.adding.Lock()
	defer r.adding.Unlock()
	next := *r.snapshot.Load()
	if next.aliases = maps.Clone(next.aliases); next.aliases == nil {
		next.aliases = make(map[string]Alias, len(aliases))
	}
	errs := make([]error, len(aliases))
	for i, a := range aliases {
		if errs[i] = next.check(a); errs[i] == nil {
			next.aliases[a.Name] = a
		}
	}
	r.publish(&next)
	return errs
}

// CheckAlias returns the error that AddAlias would return, without registering the alias.
func (r *Registry) CheckAlias(a Alias) error { return r.snapshot.Load().check(a) }

func (s *snapshot) check(a Alias) error {
	e := s.byName[a.Target()]
	switch {
	case slices.Contains(reserved, a.Name) || s.byName[a.Name] != nil:
		return fmt.Errorf("tool %q already has this name; rename the alias", a.Name)
	case e == nil && a.Optional && s.absent[a.Target()] != "":
		return nil
	case e == nil:
		return fmt.Errorf("unknown tool %q; name an existing tool", a.Target())
	case a.Optional || a.Convert != nil: // no check here: a call through the alias checks whether the tool exists
		return nil
	}
	return a.fits(e)
}

// Aliases returns all aliases by name. The caller must not modify the map.
func (r *Registry) Aliases() map[string]Alias { return r.snapshot.Load().aliases }

// Alias implements the interface Tools of package router.
func (r *Registry) Alias(name string) (namespace, target string, params map[string]string, ok bool) {
	s := r.snapshot.Load()
	a, ok := s.aliases[name]
	if e := s.byName[a.Target()]; ok && e != nil && a.Optional && a.Convert == nil && a.fits(e) != nil {
		return "", "", nil, false
	}
	return a.Namespace, a.Tool, a.Params, ok
}

// SetHabits registers function calls as agents write them. The keys of the map are the names in these calls. A key can
// be the name of a tool. SetHabits replaces the forms of an earlier call.
func (r *Registry) SetHabits(habits map[string]Alias) {
	r.change(func(next *snapshot) { next.habits = habits })
}

// SetAbsent sets the advice for calls of tools that the configuration does not use. The keys of the map are names of
// tools. SetAbsent must be called before aliases of these tools are added.
func (r *Registry) SetAbsent(advice map[string]string) {
	r.change(func(next *snapshot) { next.absent = advice })
}

// Absent implements the interface Tools of package router.
func (r *Registry) Absent(name string) string {
	s := r.snapshot.Load()
	if s.byName[name] != nil {
		return ""
	}
	return s.absent[name]
}

// Habit implements the interface Tools of package router.
func (r *Registry) Habit(name string) (target string, params map[string]string,
	convert func(args map[string]json.RawMessage) (string, map[string]json.RawMessage, error)) {
	s := r.snapshot.Load()
	a, ok := s.aliases[name]
	if !ok {
		a = s.habits[name]
	}
	return a.Tool, a.Params, a.Convert
}
