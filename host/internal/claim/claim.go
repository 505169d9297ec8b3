// Package claim determines what a call needs of its session: which other calls it must wait for, and whether it depends
// on the session's directory. [Of] returns the claim for the scheduler.
package claim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/shellscript"
)

// kindsOf maps roles to kinds if the traits of the tools are not sufficient. The kinds of all other tools follow from
// their traits.
var kindsOf = map[tool.Role]scheduler.Kind{
	tool.RoleShell: scheduler.Shell, tool.RoleEdit: scheduler.Edit, tool.RoleWrite: scheduler.Edit,
	tool.RoleNotebook: scheduler.Edit,
	tool.RoleUndo:     scheduler.Edit,
}

// Controls reports whether calls of a tool ignore the limit of concurrent calls. Two bundled tools do: the tool for
// jobs, because it must work while commands use all slots, and the tool that asks, because it only waits for a person.
// A tool of another plugin does not, although it has the same role.
func Controls(e *registry.Entry) bool {
	return controls(e, e.Role())
}

func controls(e *registry.Entry, role tool.Role) bool {
	return e.Bundled && (role == tool.RoleJobs || role == tool.RoleAsk)
}

// ChangesNothing reports whether a call cannot change files. A role of a tool that does not come with the host is no
// reason to believe this.
func ChangesNothing(c *call.Call) bool {
	e := c.Identity.Tool
	return e.Definition.Traits.ReadOnly || Controls(e) || ReadsOnly(c)
}

// kindOf returns the kind of a tool with a role and with parameters for paths. The kind determines for which other
// calls a call must wait.
func kindOf(e *registry.Entry, role tool.Role, paths []*tool.Param) scheduler.Kind {
	def := &e.Definition
	if kind, known := kindsOf[role]; known {
		return kind
	}
	switch {
	case controls(e, role):
		return scheduler.Free
	case def.Category == tool.CategoryMCP || def.Category == tool.CategoryRelay:
		return scheduler.Free // an MCP server cannot change the session
	case !def.Traits.ConcurrencySafe:
		return scheduler.Alone
	case def.Traits.ReadOnly:
		return scheduler.Read
	case len(paths) == 0:
		return scheduler.Free
	}
	return scheduler.Edit
}

// Of returns a description of the call for the scheduler. If open is true, the route of the call can still change. The
// argument "mask" masks secrets.
func Of(c *call.Call, open bool, mask func(string) string) scheduler.Claim {
	req := &c.Request
	e := c.Identity.Tool
	if e == nil || open {
		// It is unknown whether the call becomes a shell command or a tool call. Therefore the claim is the most
		// restrictive claim.
		name, command := c.Identity.Command.FirstWord(), req.Command
		return scheduler.Claim{Kind: scheduler.Alone, InOrder: req.InOrder, Moves: true,
			Label: func() string { return Label(mask, name, command) }}
	}
	role, paths := e.Role(), pathParams(e.Schema())
	out := scheduler.Claim{Kind: kindOf(e, role, paths), InOrder: req.InOrder && !controls(e, role),
		Safe: e.Definition.Traits.ConcurrencySafe}
	if e.Definition.Category == tool.CategoryMCP {
		// A call of a batch can depend on changes that earlier calls of the batch made in the server.
		out.Safe = out.Safe && e.Definition.Traits.ReadOnly
	}
	subject := ""
	switch out.Kind {
	case scheduler.Shell:
		out.Moves = true
		subject = Text(c.Decision.Arguments["command"])
		out.StartsJob = string(c.Decision.Arguments["run_in_background"]) == "true" ||
			c.Decision.Arguments["yield_ms"] != nil || background(subject)
		redirects(c, &out, subject)
	case scheduler.Read, scheduler.Edit:
		subject = names(c, &out, paths)
	case scheduler.Alone, scheduler.Free:
	}
	out.Label = func() string { return Label(mask, e.FullName(), subject) }
	return out
}

// names adds the paths in the arguments of the call to the claim. It returns the first path unchanged.
func names(c *call.Call, out *scheduler.Claim, params []*tool.Param) (first string) {
	cwd := c.Request.Session.Cwd
	given := false
	for _, param := range params {
		raw, ok := c.Decision.Arguments[param.Name]
		if !ok {
			continue
		}
		given = true
		if param.Path == "diff" {
			out.Anywhere, out.UsesDir = true, true
			continue
		}
		for _, path := range Texts(raw) {
			if first == "" {
				first = path
			}
			if strings.HasPrefix(path, "~") {
				path = policy.ExpandHome(path)
			}
			if !filepath.IsAbs(path) {
				out.UsesDir = true
				path = filepath.Join(cwd, path)
			}
			out.Paths = append(out.Paths, resolved(&c.Request.Session, path))
		}
	}
	switch {
	case given:
	case out.Kind == scheduler.Edit: // an edit without paths, for example undo
		out.Anywhere = true
	default:
		out.UsesDir = true
		if len(params) > 0 {
			out.Paths = append(out.Paths, resolved(&c.Request.Session, cwd))
		}
	}
	return first
}

var otherAmpersands = strings.NewReplacer("&&", "", ">&", "", "<&", "", "&>", "")

// background reports whether a command can start a process in the background. It returns true for some other commands,
// because it does not parse quotes.
func background(command string) bool {
	return strings.Contains(otherAmpersands.Replace(command), "&")
}

// redirects adds the files that redirects of a shell command write to the claim.
func redirects(c *call.Call, out *scheduler.Claim, command string) {
	if !strings.Contains(command, ">") { // fast check: without ">" the command has no redirects
		return
	}
	dir := c.Request.Session.Cwd
	for _, f := range shellscript.Analyze(command, shellscript.Options{Dir: dir}).Writes {
		if !f.Path.Known() || f.Dir == "" {
			continue
		}
		path := f.Path.Text
		if !filepath.IsAbs(path) {
			out.UsesDir = true
			path = filepath.Join(f.Dir, path)
		}
		out.Paths = append(out.Paths, resolved(&c.Request.Session, path))
	}
}

// PathParams returns the parameters of a tool that contain paths.
func PathParams(e *registry.Entry) []*tool.Param { return pathParams(e.Schema()) }

func pathParams(s *tool.Schema) (out []*tool.Param) {
	for _, param := range s.Params() {
		if param.Path != "" {
			out = append(out, param)
		}
	}
	return out
}

// resolved resolves symbolic links in the same way as the function "target". It is faster for paths in a root of the
// session, because the path of a root contains no symbolic links.
func resolved(s *call.Session, path string) string {
	all, inside := s.All(), filepath.Clean(path)
	path = scratch.OnHost(all, inside)
	if s.Mount.Key != "" && path != inside {
		if found, err := policy.Follow(all, inside); err == nil { // the links of a branch lead to paths of the branch
			return scratch.OnHost(all, found)
		}
		return path
	}
	for _, root := range s.Roots {
		if root.Contains(path) && !links(root.Path, path) {
			return path
		}
	}
	return target(path)
}

// links reports whether a path below a directory can contain symbolic links.
func links(dir, path string) bool {
	for at := path; len(at) > len(dir); at = filepath.Dir(at) {
		if st, err := os.Lstat(at); err != nil && !errors.Is(err, fs.ErrNotExist) ||
			err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// target returns a path with its symbolic links resolved. The path can end with elements that do not exist.
func target(path string) string {
	path = filepath.Clean(path)
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if found, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(found, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

// Text returns a string argument, or "" if the argument is not a string.
func Text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // ignore the error: the result is empty if the argument is not a string
	return s
}

// Texts returns the strings in an argument, which is a string or an array of strings.
func Texts(raw json.RawMessage) (out []string) {
	if s := Text(raw); s != "" {
		return []string{s}
	}
	_ = json.Unmarshal(raw, &out) // ignore the error: an argument of another type contains no paths
	return out
}

// maxLabel limits the length of a label, in characters.
const maxLabel = 60

// Label returns a short text that identifies a call for people. The argument "mask" masks
// secrets in the subject.
func Label(mask func(string) string, name, subject string) string {
	subject, _, _ = strings.Cut(strings.TrimSpace(mask(subject)), "\n")
	if subject == "" {
		return name
	}
	if r := []rune(subject); len(r) > maxLabel {
		subject = string(r[:maxLabel-1]) + "…"
	}
	return name + ": " + subject
}

// ReadsOnly reports whether a call runs only commands that change no file. It returns false for a shell that does not
// come with the host, because its plugin can do something else than the command.
func ReadsOnly(c *call.Call) bool {
	if e := c.Identity.Tool; !e.Bundled || !e.Has(tool.RoleShell) {
		return false
	}
	return shellscript.ReadsOnly(Text(c.Decision.Arguments["command"]), shellscript.Options{Dir: c.Request.Session.Cwd})
}

// Subject returns the part of a call that a person recognizes: the command, or the first path.
func Subject(c *call.Call) string {
	if command := Text(c.Decision.Arguments["command"]); command != "" {
		return command
	}
	for _, param := range PathParams(c.Identity.Tool) {
		if param.Path == "diff" {
			continue
		}
		for _, path := range Texts(c.Decision.Arguments[param.Name]) {
			return path
		}
	}
	return ""
}
