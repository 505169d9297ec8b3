package registry

import (
	"maps"
	"slices"

	"toolhost.dev/sdk/tool"
)

// ByRole returns the tool with a role, also if it is disabled. It returns nil if no tool has the role.
func (r *Registry) ByRole(role tool.Role) *Entry { return r.snapshot.Load().roles[role] }

// RoleName returns the name of the tool with a role, or "" if no tool has the role.
func (r *Registry) RoleName(role tool.Role) string {
	if e := r.ByRole(role); e != nil {
		return e.FullName()
	}
	return ""
}

// Reserve keeps the names and the roles of bundled tools that are not loaded from tools that do not come with the host.
// The argument maps the names to plugins. It must be called before tools are added.
func (r *Registry) Reserve(names map[string]string) {
	r.change(func(next *snapshot) { next.reserved = names })
}

// Reserved reports whether [Registry.Reserve] reserved a role.
func (r *Registry) Reserved(role tool.Role) bool { return r.snapshot.Load().reservedRole(role) }

func (s *snapshot) reservedRole(role tool.Role) bool {
	for name := range s.reserved {
		if d := (tool.Definition{Name: name}); role != "" && d.Claims() == role {
			return true
		}
	}
	return false
}

// bundledNames returns the names that only bundled tools get: the reserved names, and the names of the bundled tools in
// additions. A plugin that the operator configured before the bundled ones would otherwise get their calls.
func (s *snapshot) bundledNames(additions []Addition) map[string]string {
	out := maps.Clone(s.reserved)
	for _, a := range additions {
		for _, d := range a.Description.Tools {
			if a.Namespace != "" || !a.Settings(d.Name).Bundled {
				break
			}
			if out == nil {
				out = make(map[string]string)
			}
			out[d.Name] = a.Plugin
		}
	}
	return out
}

// Keep lets the tools of a former registry keep their names and roles in the next [Registry.AddAll]. It keeps them only
// from the rivals, which are plugins: a plugin that the operator adds has what its place in the configuration gives it,
// but a new version of a plugin takes nothing from another plugin.
func (r *Registry) Keep(former *Registry, rivals []string) {
	r.change(func(next *snapshot) { next.former, next.rivals = former.snapshot.Load(), rivals })
}

// kept contains the plugins that keep a name or a role of the former registry, because they still declare it.
type kept struct {
	names  map[string]string
	roles  map[tool.Role]string
	rivals []string
}

func (s *snapshot) kept(additions []Addition) kept {
	k := kept{make(map[string]string), make(map[tool.Role]string), s.rivals}
	for _, a := range additions {
		for i := range a.Description.Tools {
			d := &a.Description.Tools[i]
			was := (*Entry)(nil)
			if s.former != nil {
				was = s.former.byName[(&Entry{Definition: *d, Namespace: a.Namespace}).FullName()]
			}
			if was == nil || was.Plugin != a.Plugin {
				continue
			}
			k.names[was.FullName()] = a.Plugin
			if role := was.Role(); role != "" && role == d.Claims() {
				k.roles[role] = a.Plugin
			}
		}
	}
	return k
}

// from returns the plugin that keeps something from the plugin of an entry, or "".
func (k kept) from(e *Entry, keeper string) string {
	if e.Bundled || keeper == e.Plugin || !slices.Contains(k.rivals, e.Plugin) {
		return ""
	}
	return keeper
}

// assign decides about the role that the tool of a new entry claims, as [tool.Role] says. The entry must not be in the
// snapshot yet.
func (s *snapshot) assign(e *Entry, k kept) {
	role := e.Definition.Claims()
	e.Definition.Role = ""
	holder := s.roles[role]
	switch {
	case role == "", !e.Bundled && s.reservedRole(role), k.from(e, k.roles[role]) != "":
	case e.Namespace != "":
		if (&tool.Definition{Name: e.Definition.Name}).Claims() == tool.RoleShell {
			e.Definition.Role = tool.RoleShell // rules have always judged its calls as commands; it has no other effect, see Has
		}
	case holder == nil:
		e.Definition.Role = role
		s.roles[role] = e
	case e.Bundled && !holder.Bundled:
		former := *holder // other snapshots contain the entry
		former.Definition.Role = ""
		s.byName[former.FullName()] = &former
		s.order[slices.Index(s.order, holder)] = &former
		e.Definition.Role = role
		s.roles[role] = e
	}
}
