package registry

import (
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

// Role returns the role of the tool. A tool in a namespace has none.
func (e *Entry) Role() tool.Role {
	if e.Namespace != "" {
		return ""
	}
	return e.Definition.Role
}

// Has reports whether the tool has a role.
func (e *Entry) Has(role tool.Role) bool { return e.Role() == role }

// assign decides about the role that the tool of a new entry claims, as [tool.Role] says. The entry must not be in the snapshot yet.
func (s *snapshot) assign(e *Entry) {
	role := e.Definition.Claims()
	e.Definition.Role = ""
	holder := s.roles[role]
	switch {
	case role == "" || e.noRole:
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
