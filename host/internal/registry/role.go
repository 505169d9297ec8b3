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
	r.adding.Lock()
	defer r.adding.Unlock()
	next := *r.snapshot.Load()
	next.reserved = names
	r.publish(&next)
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

// bundledNames returns the names that only bundled tools get: the reserved ones, and those of the bundled tools in
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

// assign decides about the role that the tool of a new entry claims, as [tool.Role] says. The entry must not be in the
// snapshot yet.
func (s *snapshot) assign(e *Entry) {
	role := e.Definition.Claims()
	e.Definition.Role = ""
	holder := s.roles[role]
	switch {
	case role == "", !e.Bundled && s.reservedRole(role):
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
