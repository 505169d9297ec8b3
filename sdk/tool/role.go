package tool

import "slices"

// Role is the purpose of a tool that the host or a frontend uses itself: the shell that runs the command lines that
// name no tool, or the undo that a console offers as a button. The set of roles is closed. A host ignores unknown
// roles.
//
// A role is a claim of the plugin and no permission. The sandbox, the rules, the limits of principals and the approvals
// are those of a tool without a role:
//
//   - At most one tool has each role: the bundled one, or the first agent tool that claims it if the configuration has no
//     bundled one. The role of a disabled tool stays with it. Tools in a namespace have none. A new version of a plugin
//     takes no role from a tool of another plugin.
//   - A read-only tool cannot have a role that changes files, because rules treat its calls as reads.
//   - The host judges each command of the [RoleShell], and otherwise trusts neither its result nor that it ran only the
//     command. Only for a bundled shell it omits the checkpoint before a command that changes nothing.
//   - The calls of [RoleJobs] and [RoleAsk] do not count for the limits of concurrent calls only if the tool is bundled.
//   - A person answers the requests of a tool with [RoleAsk], as those of every other tool. An answer is no permission.
//   - The host answers calls of the [RoleBranch] only if the tool is bundled.
type Role string

// The values of [Role], with the parameters that the host sets or reads. The tools that come with the host have these
// roles.
const (
	// RoleShell runs scripts of bash: command, and the optional parameters stdin, cwd, run_in_background and yield_ms.
	// The result's data has stdout, stderr and job_id, and the code of its error is the exit status.
	RoleShell Role = "shell"
	// RoleJobs manages background jobs: action (list, background or kill) and id. The data has jobs, each with id,
	// command, running and foreground.
	RoleJobs Role = "jobs"
	// RoleRead reads files: file_path.
	RoleRead Role = "read"
	// RoleWrite writes whole files: file_path and content. RoleEdit replaces texts: file_path, old_string and
	// new_string. RoleNotebook edits cells of notebooks: notebook_path. Calls for different files run at the same time.
	RoleWrite    Role = "write"
	RoleEdit     Role = "edit"
	RoleNotebook Role = "notebook"
	// RoleUndo reverts earlier changes, and RoleRedo makes them again: action (list, preview or the name of the role),
	// steps, to, and file_path, which is marked as written. In a session with checkpoints, the host answers undo.
	RoleUndo Role = "undo"
	RoleRedo Role = "redo"
	// RoleBranch reviews the branches of the host.
	RoleBranch Role = "branch"
	// RoleSearch finds texts in files: pattern and path. RoleFind finds files by name: pattern and path. RoleList lists
	// a directory: path. RoleSymbols finds declarations: query.
	RoleSearch  Role = "search"
	RoleFind    Role = "find"
	RoleList    Role = "list"
	RoleSymbols Role = "symbols"
	// RoleFetch loads a web page: url.
	RoleFetch Role = "fetch"
	// RoleAsk asks a person: questions.
	RoleAsk Role = "ask"
	// RolePlan keeps the list of tasks of a session: todos.
	RolePlan Role = "plan"
)

// ActionList is the value of the parameter action with which the tools with [RoleJobs], [RoleUndo] and [RoleBranch]
// list what they have.
const ActionList = "list"

// Roles lists all roles.
var Roles = []Role{
	RoleShell, RoleJobs, RoleRead, RoleWrite, RoleEdit, RoleNotebook, RoleUndo, RoleRedo, RoleBranch, RoleSearch,
	RoleFind, RoleList,
	RoleSymbols, RoleFetch, RoleAsk, RolePlan,
}

// Known reports whether r is one of [Roles].
func (r Role) Known() bool { return slices.Contains(Roles, r) }

// Changes reports whether calls of a tool with the role can change files.
func (r Role) Changes() bool {
	return slices.Contains([]Role{RoleShell, RoleWrite, RoleEdit, RoleNotebook, RoleUndo, RoleRedo, RoleBranch}, r)
}

// historicRoles has the roles of tools whose plugins declare none, by name. Before tools had roles, hosts knew the
// tools of the bundled plugins by these names.
var historicRoles = map[string]Role{
	"bash": RoleShell, "job": RoleJobs, "read": RoleRead, "write": RoleWrite, "edit": RoleEdit, "notebook_edit": RoleNotebook,
	"undo": RoleUndo, "redo": RoleRedo, "branch": RoleBranch, "grep": RoleSearch, "glob": RoleFind, "list": RoleList,
	"code_query": RoleSymbols, "web_fetch": RoleFetch, "ask_user": RoleAsk, "todo": RolePlan,
}

// Claims returns the role that the tool claims: its Role, or for a tool without one the role that hosts derived from
// the name before tools had roles. It returns "" for an unknown role, and for one that changes files if the tool is
// read-only.
func (d *Definition) Claims() Role {
	role := d.Role
	if role == "" {
		role = historicRoles[d.Name]
	}
	if !role.Known() || role.Changes() && d.Traits.ReadOnly {
		return ""
	}
	return role
}
