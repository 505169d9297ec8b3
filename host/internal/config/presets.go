package config

// Presets contains sets of aliases for tools and parameters. Agents know these names from other programs. An alias for
// an unknown tool has no effect.
var Presets = map[string][]Alias{
	// Names of tools in many agents.
	"common": {
		{Name: "file_read", Tool: "read", Params: map[string]string{"path": "file_path"}},
		{Name: "read_file", Tool: "read", Params: map[string]string{"path": "file_path", "target_file": "file_path", "filename": "file_path"}},
		{Name: "file_write", Tool: "write", Params: map[string]string{"path": "file_path"}},
		{Name: "write_file", Tool: "write", Params: map[string]string{"path": "file_path", "contents": "content", "filename": "file_path"}},
		{Name: "create_file", Tool: "write", Params: map[string]string{"path": "file_path", "contents": "content", "file_text": "content"}},
		{Name: "file_edit", Tool: "edit", Params: map[string]string{"path": "file_path", "old_str": "old_string", "new_str": "new_string"}},
		{Name: "edit_file", Tool: "edit", Params: map[string]string{"path": "file_path", "old_str": "old_string", "new_str": "new_string"}},
		{Name: "str_replace", Tool: "edit", Params: map[string]string{"path": "file_path", "old_str": "old_string", "new_str": "new_string"}},
		{Name: "file_list", Tool: "list"},
		{Name: "list_dir", Tool: "list", Params: map[string]string{"dir": "path", "directory": "path"}},
		{Name: "list_files", Tool: "list", Params: map[string]string{"dir": "path", "directory": "path"}},
		{Name: "list_directory", Tool: "list", Params: map[string]string{"dir": "path", "directory": "path"}},
		{Name: "glob_search", Tool: "glob"},
		{Name: "file_search", Tool: "glob", Params: map[string]string{"query": "pattern"}},
		{Name: "grep_search", Tool: "grep", Params: map[string]string{"query": "pattern", "regex": "pattern"}},
		{Name: "search_files", Tool: "grep", Params: map[string]string{"query": "pattern", "regex": "pattern"}},
		{Name: "find_symbol", Tool: "code_query", Params: map[string]string{"name": "query", "symbol": "query", "kind": "type"}},
		{Name: "symbol_search", Tool: "code_query", Params: map[string]string{"name": "query", "symbol": "query", "kind": "type"}},
		{Name: "code_search", Tool: "code_query"},
		{Name: "shell_exec", Tool: "bash", Params: map[string]string{"cmd": "command", "workdir": "cwd"}},
		{Name: "run_shell_command", Tool: "bash", Params: map[string]string{"cmd": "command", "directory": "cwd"}},
		{Name: "run_command", Tool: "bash", Params: map[string]string{"cmd": "command", "workdir": "cwd"}},
		{Name: "execute_command", Tool: "bash", Params: map[string]string{"cmd": "command", "workdir": "cwd"}},
		{Name: "undo_edit", Tool: "undo", Params: map[string]string{"path": "file_path"}},
	},
	// Names of tools in Claude's own agent.
	"claude": {
		{Name: "Read", Tool: "read"},
		{Name: "Write", Tool: "write"},
		{Name: "Edit", Tool: "edit"},
		{Name: "MultiEdit", Tool: "edit"},
		{Name: "LS", Tool: "list"},
		{Name: "Glob", Tool: "glob"},
		{Name: "Grep", Tool: "grep", Params: map[string]string{
			"-A": "after", "-B": "before", "-C": "context", "-i": "ignore_case", "-n": "line_numbers",
		}},
		{Name: "Bash", Tool: "bash"},
		{Name: "AskUserQuestion", Tool: "ask_user"},
	},
}
