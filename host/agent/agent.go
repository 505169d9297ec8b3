// Package agent changes the settings of coding agents so that they use toolhost as their MCP server. Most callers want
// [Find], [Agent.Plan], [Store.Write] and [Plan.Launch]. [Store.Undo] undoes the changes.
//
// A plan changes only the required settings and keeps comments and unknown keys. If a settings file is a symbolic link,
// the target of the link changes. A file that changed after the plan was made is refused.
package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"toolhost.dev/sdk/suggest"
)

// Agent describes a coding agent and its settings.
type Agent struct {
	Name, Title string
	// Notes lists the steps that a person must do, because no settings file can do them.
	Notes []string

	files func(*Place) []settings
	// environment lists the environment variables that the agent passes to a server. Nil means all variables.
	environment []string
}

// Place selects the settings to write.
type Place struct {
	// Project selects the settings of the project in the directory Dir. Otherwise the settings of the user are
	// selected.
	Project bool
	// Dir is the directory in which the agent starts. Home is the home directory.
	Dir, Home string
	// Server is the name of the server in the settings.
	Server string
	Getenv func(string) string
}

// base returns the directory with the settings. This is the project directory or the home directory.
func (p *Place) base() string {
	if p.Project {
		return p.Dir
	}
	return p.Home
}

// Check returns an error if the selected settings cannot be found.
func (p *Place) Check() error {
	if !p.Project && !filepath.IsAbs(p.Home) {
		return errors.New("the home directory is unknown; set HOME, or use --project")
	}
	return nil
}

// settings describes one settings file and the required settings in it.
type settings struct {
	path string
	// servers is the path of the object that contains the servers. It is nil for a file without servers.
	servers []string
	// entry returns the settings entry of a server that runs the command. If "list" is true, the entry
	// contains the command and its arguments as one list.
	entry func(command []string) map[string]any
	list  bool
	// remote describes the form of entries for servers over HTTP.
	remote remote
	sets   []assignment
	adds   []addition
}

// assignment sets a key to a value. A soft assignment does not replace an existing value.
type assignment struct {
	path  []string
	value any
	soft  bool
}

// addition adds items to a list unless the list already contains the items.
type addition struct {
	path  []string
	items []string
}

// stdio returns a function that returns the entry of a server in the format of most agents.
func stdio(more map[string]any) func([]string) map[string]any {
	return func(command []string) map[string]any {
		out := map[string]any{"command": command[0], "args": command[1:]}
		maps.Copy(out, more)
		return out
	}
}

// Names returns the names of all agents.
func Names() []string { return slices.Sorted(maps.Keys(agents)) }

// Find returns the agent with the given name.
func Find(name string) (*Agent, error) {
	a, ok := agents[name]
	if !ok {
		return nil, fmt.Errorf("unknown agent %q; use one of %q.%s docs/agents.md has others", name, Names(), suggest.DidYouMean(name, Names()))
	}
	a.Name = name
	return &a, nil
}

var agents = map[string]Agent{
	"claude":   {Title: "Claude Code", files: claude},
	"codex":    {Title: "Codex", files: codex, environment: codexEnvironment, Notes: []string{"Codex has no setting that turns apply_patch off. With sandbox_mode = \"read-only\" it asks before it applies a patch of its own."}},
	"gemini":   {Title: "Gemini CLI", files: gemini},
	"opencode": {Title: "opencode", files: opencode},
	"vscode": {Title: "VS Code", files: vscode, Notes: []string{
		"VS Code has no file that turns its own tools off: in the tools picker of the chat, clear Built-In and keep toolhost.",
		"VS Code asks at the first call of each tool: choose to always allow the tools of this server.",
	}},
	"cursor": {Title: "Cursor", files: cursor, Notes: []string{
		"Cursor has no file that turns its own tools off: make a custom mode with the tools of toolhost only.",
		"The list mcpAllowlist replaces the one in Cursor's settings window.",
	}},
}

// claude returns settings that deny the built-in tools of Claude Code. If they only allowed the server, the
// agent would keep its built-in tools beside those of the server.
func claude(p *Place) []settings {
	own := settings{
		path: filepath.Join(p.base(), ".claude", "settings.json"),
		adds: []addition{
			{[]string{"permissions", "allow"}, []string{"mcp__" + p.Server}},
			{[]string{"permissions", "deny"}, []string{"Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"}},
		},
	}
	servers := settings{path: filepath.Join(p.base(), ".claude.json"), servers: []string{"mcpServers"},
		entry: stdio(map[string]any{"type": "stdio"}), remote: remote{kind: "http", variable: "${%s}"}}
	if p.Project {
		servers.path = filepath.Join(p.base(), ".mcp.json")
		own.adds = append(own.adds, addition{[]string{"enabledMcpjsonServers"}, []string{p.Server}})
	} else if dir := p.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		servers.path, own.path = filepath.Join(dir, ".claude.json"), filepath.Join(dir, "settings.json")
	}
	return []settings{servers, own}
}

var codexEnvironment = []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}

func codex(p *Place) []settings {
	dir := filepath.Join(p.base(), ".codex")
	if home := p.Getenv("CODEX_HOME"); home != "" && !p.Project {
		dir = home
	}
	return []settings{{
		path: filepath.Join(dir, "config.toml"), servers: []string{"mcp_servers"}, entry: stdio(nil),
		remote: remote{headers: "http_headers", variableKey: "bearer_token_env_var"},
		sets: []assignment{
			{[]string{"mcp_servers", p.Server, "default_tools_approval_mode"}, "approve", true},
			{[]string{"features", "shell_tool"}, false, false},
			{[]string{"sandbox_mode"}, "read-only", true},
		},
	}}
}

func gemini(p *Place) []settings {
	return []settings{{
		path: filepath.Join(p.base(), ".gemini", "settings.json"), servers: []string{"mcpServers"}, entry: stdio(nil),
		remote: remote{kind: "http", variable: "${%s}"},
		sets:   []assignment{{[]string{"mcpServers", p.Server, "trust"}, true, true}},
		adds: []addition{{[]string{"tools", "exclude"}, []string{
			"run_shell_command", "read_file", "read_many_files", "write_file", "replace", "glob", "search_file_content",
			"grep_search", "list_directory",
		}}},
	}}
}

func opencode(p *Place) []settings {
	dir := p.Dir
	if !p.Project {
		if dir = p.Getenv("XDG_CONFIG_HOME"); dir == "" {
			dir = filepath.Join(p.Home, ".config")
		}
		dir = filepath.Join(dir, "opencode")
	}
	out := settings{path: filepath.Join(dir, "opencode.json"), servers: []string{"mcp"}, list: true,
		entry: func(command []string) map[string]any {
			return map[string]any{"type": "local", "command": command, "enabled": true}
		}, remote: remote{kind: "remote", variable: "{env:%s}", more: map[string]any{"enabled": true}}}
	if path := filepath.Join(dir, "opencode.jsonc"); !exists(out.path) && exists(path) {
		out.path = path
	}
	out.sets = []assignment{{[]string{"permission", p.Server + "_*"}, "allow", true}}
	for _, tool := range []string{"bash", "edit", "read", "grep", "glob", "list"} {
		out.sets = append(out.sets, assignment{[]string{"permission", tool}, "deny", false})
	}
	return []settings{out}
}

func vscode(p *Place) []settings {
	path := filepath.Join(p.Dir, ".vscode", "mcp.json")
	if !p.Project {
		dir := filepath.Join(p.Home, ".config")
		if xdg := p.Getenv("XDG_CONFIG_HOME"); xdg != "" {
			dir = xdg
		}
		if runtime.GOOS == "darwin" {
			dir = filepath.Join(p.Home, "Library", "Application Support")
		}
		path = filepath.Join(dir, "Code", "User", "mcp.json")
	}
	return []settings{
		{path: path, servers: []string{"servers"}, entry: stdio(map[string]any{"type": "stdio"}),
			remote: remote{kind: "http", variable: "${env:%s}"}},
	}
}

func cursor(p *Place) []settings {
	dir := filepath.Join(p.base(), ".cursor")
	return []settings{
		{path: filepath.Join(dir, "mcp.json"), servers: []string{"mcpServers"}, entry: stdio(map[string]any{"type": "stdio"}), remote: remote{variable: "${env:%s}"}},
		{path: filepath.Join(dir, "permissions.json"), adds: []addition{{[]string{"mcpAllowlist"}, []string{p.Server + ":*"}}}},
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
