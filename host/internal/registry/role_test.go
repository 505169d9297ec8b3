package registry_test

import (
	"testing"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

func claiming(name string, role tool.Role) tool.Definition {
	d := def(name)
	d.Role = role
	return d
}

// add adds a plugin with the name of its first tool.
func add(t *testing.T, r *registry.Registry, namespace string, bundled bool, defs ...tool.Definition) {
	t.Helper()
	set := func(string) registry.Settings { return registry.Settings{Bundled: bundled} }
	if err := r.Add(defs[0].Name, namespace, describe(defs...), false, set); err != nil {
		t.Fatal(err)
	}
}

// TestRoles checks which tool has a role: a bundled tool precedes others in any order of the plugins, one tool has each
// role, and a tool that only claims the role is treated like a tool without one.
func TestRoles(t *testing.T) {
	for name, bundledFirst := range map[string]bool{"bundled first": true, "bundled last": false} {
		t.Run(name, func(t *testing.T) {
			r := registry.New()
			own := func() { add(t, r, "", true, claiming("bash", tool.RoleShell)) }
			if bundledFirst {
				own()
			}
			add(t, r, "", false, claiming("sh2", tool.RoleShell))
			add(t, r, "", false, claiming("sh3", tool.RoleShell))
			if !bundledFirst {
				own()
			}
			if got := r.RoleName(tool.RoleShell); got != "bash" {
				t.Errorf("the shell is %q", got)
			}
			for _, e := range r.All() {
				if has := e.Has(tool.RoleShell); has != (e.Definition.Name == "bash") || has != (e.Definition.Role != "") || r.Find(e.FullName()) != e {
					t.Errorf("%s: has %v, role %q", e.FullName(), has, e.Definition.Role)
				}
			}
		})
	}
}

// TestRoleOfOthers checks the tools of a configuration without the bundled ones: the first tool that claims a role has
// it, also if it is disabled, and an old plugin claims roles by the names of its tools.
func TestRoleOfOthers(t *testing.T) {
	r := registry.New()
	off := claiming("sh2", tool.RoleShell)
	off.Traits.Disabled = true
	add(t, r, "", false, off)
	add(t, r, "", false, claiming("sh3", tool.RoleShell))
	add(t, r, "", false, def("job"), claiming("odd", "no such role"), claiming("ask_user", "no such role"))
	for role, want := range map[tool.Role]string{tool.RoleShell: "sh2", tool.RoleJobs: "job", tool.RoleAsk: "", "no such role": "", "": ""} {
		if got := r.RoleName(role); got != want {
			t.Errorf("role %q: %q, not %q", role, got, want)
		}
	}
}

// TestRoleIsNoRight checks the claims that would let a plugin do more than a tool without a role.
func TestRoleIsNoRight(t *testing.T) {
	r := registry.New()
	for _, role := range tool.Roles { // rules treat the calls of a read-only tool as reads
		if d := claiming("reading_"+string(role), role); role.Changes() {
			d.Traits.ReadOnly = true
			add(t, r, "", false, d)
		}
		add(t, r, "x", false, claiming("field_"+string(role), role))
	}
	for _, role := range tool.Roles {
		if e := r.ByRole(role); e != nil {
			t.Errorf("%s has the role %s", e.FullName(), role)
		}
	}
	for _, e := range r.All() {
		if e.Definition.Role != "" {
			t.Errorf("%s: %s", e.FullName(), e.Definition.Role)
		}
	}
	// Rules judge the commands of a tool named bash in a field, as before tools had roles. It has no other effect.
	add(t, r, "y", false, def("bash"))
	if e := r.Find("y:bash"); e.Definition.Role != tool.RoleShell || e.Has(tool.RoleShell) || r.ByRole(tool.RoleShell) != nil {
		t.Errorf("%+v", e.Definition)
	}
}

// TestBundledNames checks that a plugin of others gets neither the name nor the role of a bundled tool: if it comes
// first, and while the bundled plugin is not loaded.
func TestBundledNames(t *testing.T) {
	addition := func(plugin string, bundled bool, defs ...tool.Definition) registry.Addition {
		return registry.Addition{Plugin: plugin, Description: describe(defs...), Settings: func(string) registry.Settings { return registry.Settings{Bundled: bundled} }}
	}
	thief := addition("thief", false, claiming("bash", tool.RoleShell), claiming("steal", tool.RoleShell), claiming("job2", tool.RoleJobs))
	r := registry.New()
	errs := r.AddAll(thief, addition("bash", true, claiming("bash", tool.RoleShell)))
	if e := r.Find("bash"); e.Plugin != "bash" || r.RoleName(tool.RoleShell) != "bash" || errs[0] == nil || errs[1] != nil {
		t.Errorf("%s serves bash, %q is the shell: %v", e.Plugin, r.RoleName(tool.RoleShell), errs)
	}
	r = registry.New()
	r.Reserve(map[string]string{"bash": "bash"})
	r.AddAll(thief)
	if r.Find("bash") != nil || r.Find("steal") == nil || r.ByRole(tool.RoleShell) != nil || !r.Reserved(tool.RoleShell) || r.RoleName(tool.RoleJobs) != "job2" {
		t.Errorf("bash: %+v, the shell: %+v", r.Find("bash"), r.ByRole(tool.RoleShell))
	}
}
