package habit

import "toolhost.dev/sdk/tool"

// Presets maps the names of other programs to the aliases of their tools. The preset "common" contains names that many
// agents use.
var Presets = map[string][]Alias{
	"common":    common,
	"claude":    claude,
	"codex":     codex,
	"gemini":    gemini,
	"opencode":  opencode,
	"anthropic": anthropic,
}

// params merges maps of parameter names. If a name occurs in several maps, the last map decides.
func params(all ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, m := range all {
		for from, to := range m {
			out[from] = to
		}
	}
	return out
}

// renames returns an alias that only renames parameters.
func renames(name string, role tool.Role, all ...map[string]string) Alias {
	return Alias{Name: name, Role: role, Params: params(all...)}
}

// converts returns an alias with a conversion for a fixed role.
func converts(name string, role tool.Role, names map[string]string, steps ...func(c *call)) Alias {
	return Alias{Name: name, Role: role, Params: names, Convert: converter(role, names, steps...)}
}

// These maps contain the names of parameters in other programs. A name that maps to "" belongs to a parameter that only
// informs the user of another program.
var (
	talk = map[string]string{"explanation": "", "description": "", "instruction": "", "instructions": "",
		"justification": "", "wait_for_previous": "", "toolSummary": "", "toolAction": ""}
	file = params(talk, map[string]string{
		"path": "file_path", "target_file": "file_path", "filename": "file_path", "file": "file_path",
		"filepath": "file_path", "absolute_path": "file_path", "uri": "file_path",
	})
	span = params(file, map[string]string{
		"start_line_one_indexed": "start_line", "end_line_one_indexed_inclusive": "end_line",
		"line_start": "start_line", "line_end": "end_line", "startLine": "start_line", "endLine": "end_line", "head": "limit", "max_lines": "limit",
	})
	text = params(file, map[string]string{"contents": "content", "file_text": "content", "text": "content"})
	swap = params(file, map[string]string{
		"old_str": "old_string", "new_str": "new_string", "old_text": "old_string", "new_text": "new_string", "oldText": "old_string", "newText": "new_string", "search": "old_string", "replace": "new_string",
		"allow_multiple": "replace_all", "patch": "diff", "expected_occurrences": "expected_replacements",
	})
	dir = params(talk, map[string]string{
		"dir": "path", "directory": "path", "dir_path": "path", "target_directory": "path",
		"relative_workspace_path": "path", "respect_gemini_ignore": "",
	})
	find = params(dir, map[string]string{
		"query": "pattern", "regex": "pattern", "search": "pattern", "include": "glob", "includes": "glob", "glob_pattern": "glob", "file_pattern": "glob", "exclude": "exclude_pattern",
		"-A": "after", "-B": "before", "-C": "context", "-i": "ignore_case", "-n": "line_numbers", "-o": "only_matching", "-v": "invert_match", "-m": "max_count", "-a": "text", "-M": "max_columns", "case_insensitive": "ignore_case", "isRegexp": "is_regexp", "includePattern": "include_pattern", "excludePattern": "exclude_pattern", "limit": "head_limit",
		"max_results": "head_limit", "total_max_matches": "head_limit", "invert": "invert_match", "follow_symlinks": "follow",
	})
	name = params(dir, map[string]string{
		"case_sensitive": "case_sensitive", "query": "pattern", "glob": "pattern", "glob_pattern": "pattern",
		"file_pattern": "pattern", "limit": "head_limit", "max_results": "head_limit",
	})
	shell = map[string]string{
		"cmd": "command", "script": "command", "commandLine": "command", "workdir": "cwd", "directory": "cwd", "dir_path": "cwd", "working_directory": "cwd", "timeout_ms": "timeout", "timeoutMs": "timeout",
		"explanation": "", "justification": "", "wait_for_previous": "", "with_escalated_permissions": "", "sandbox_permissions": "", "additional_permissions": "", "prefix_rule": "", "login": "", "shell": "", "max_output_tokens": "",
		"max_output_length": "", "require_user_approval": "", "requires_approval": "", "dangerouslyDisableSandbox": "", "yield_time_ms": "yield_ms", "delay_ms": "yield_ms",
		"is_background": "run_in_background", "isBackground": "run_in_background", "background": "run_in_background",
	}
	job = map[string]string{
		"bash_id": "id", "shell_id": "id", "task_id": "id", "job_id": "id", "session_id": "id", "pid": "id",
		"chars": "input", "data": "input", "yield_time_ms": "timeout", "wait_time": "timeout", "max_output_tokens": "",
	}
	notebook = params(talk, map[string]string{
		"path": "notebook_path", "file_path": "notebook_path", "cell_index": "cell_number", "source": "new_source",
		"mode": "edit_mode",
	})
	web = params(talk, map[string]string{
		"Url": "url", "uri": "url", "max_length": "limit", "start_index": "offset", "timeout": "",
	})
	symbol = map[string]string{"name": "query", "symbol": "query", "kind": "type"}
)

// inCalls restricts aliases to function calls.
func inCalls(all ...Alias) []Alias {
	for i := range all {
		all[i].Calls = true
	}
	return all
}

// These functions return aliases that several presets use.
func reading(name string) Alias {
	return converts(name, tool.RoleRead, span, whole, lines, sliceMode, pages)
}
func editing(name string) Alias { return converts(name, tool.RoleEdit, swap, edits, expected, preview) }
func searching(name string) Alias {
	return converts(name, tool.RoleSearch, find, globs, letterCase, names, fixed, regexps, perFile, ignoring)
}
func finding(n string) Alias { return converts(n, tool.RoleFind, name, anyCase, ignoring) }
func listing(name string) Alias {
	return converts(name, tool.RoleList, dir, ignoring, ignored, depth, first)
}
func running(name string) Alias {
	return Alias{Name: name, Role: tool.RoleShell, Params: shell, Convert: switching(shell, run)}
}
func patching(name string) Alias {
	names := params(talk, map[string]string{
		"input": "diff", "patch": "diff", "patchText": "diff", "patch_text": "diff", "workdir": "",
	})
	return converts(name, tool.RoleEdit, names, positional)
}
func planning(name string) Alias {
	return converts(name, tool.RolePlan,
		map[string]string{"plan": "todos", "tasks": "todos", "items": "todos", "explanation": ""}, tasks)
}
func fetching(name string) Alias { return converts(name, tool.RoleFetch, web, address, rawPage) }
func removing(name string) Alias { return converts(name, tool.RoleEdit, file, removal) }

var common = append([]Alias{
	reading("file_read"), reading("read_file"), reading("view_file"), reading("open_file"), reading("cat_file"),
	reading("read_text_file"),
	renames("file_write", tool.RoleWrite, text), renames("write_file", tool.RoleWrite, text),
	renames("create_file", tool.RoleWrite, text), renames("write_to_file", tool.RoleWrite, text), renames("save_file", tool.RoleWrite, text),
	editing("file_edit"), editing("edit_file"), editing("str_replace"), editing("search_replace"),
	editing("multi_edit"), editing("replace_in_file"),
	removing("delete_file"), removing("remove_file"),
	listing("file_list"), listing("list_dir"), listing("list_files"), listing("list_directory"),
	listing("directory_tree"), listing("ls_dir"),
	finding("glob_search"), finding("file_search"), finding("find_files"), finding("glob_file_search"),
	searching("grep_search"), searching("search_files"), searching("search_file_content"), searching("grep_files"),
	searching("text_search"),
	renames("find_symbol", tool.RoleSymbols, symbol), renames("symbol_search", tool.RoleSymbols, symbol),
	renames("code_search", tool.RoleSymbols, symbol),
	running("shell_exec"), running("run_shell_command"), running("run_command"), running("execute_command"),
	running("run_terminal_cmd"), running("run_in_terminal"), running("execute_bash"),
	renames("undo_edit", tool.RoleUndo, file),
	patching("apply_patch"), patching("apply_diff"),
	planning("todo_write"),
	fetching("fetch_url"), fetching("read_url_content"),
	converts("ask_followup_question", tool.RoleAsk, map[string]string{"follow_up": "options", "suggest": "options"}),
}, inCalls(
	reading("view"), editing("multiedit"), searching("ripgrep"), planning("todos"), fetching("fetch"),
	// Tools of other programs have these names, too, but other parameters.
	reading("read"), editing("edit"), renames("write", tool.RoleWrite, text), searching("grep"), finding("glob"),
	listing("list"), running("bash"),
	converts("ask_user", tool.RoleAsk, nil, questions), planning("todo"), fetching("web_fetch"),
)...)

var claude = []Alias{
	converts("Read", tool.RoleRead, params(span, map[string]string{"allow_large": ""}), lines, pages),
	renames("Write", tool.RoleWrite, text),
	editing("Edit"), editing("MultiEdit"),
	listing("LS"), finding("Glob"), searching("Grep"), running("Bash"),
	converts("BashOutput", tool.RoleJobs, job, output), converts("TaskOutput", tool.RoleJobs, job, output),
	converts("KillShell", tool.RoleJobs, job, kill), converts("KillBash", tool.RoleJobs, job, kill), converts("TaskStop", tool.RoleJobs, job, kill),
	converts("AskUserQuestion", tool.RoleAsk, nil, questions),
	planning("TodoWrite"), renames("TodoRead", tool.RolePlan),
	renames("NotebookEdit", tool.RoleNotebook, notebook),
	converts("NotebookRead", tool.RoleRead, params(span, map[string]string{"notebook_path": "file_path"}), lines),
	fetching("WebFetch"),
}

var codex = append([]Alias{
	running("shell_command"), running("container.exec"), running("exec_command"), running("unified_exec"),
	{Name: "local_shell", Role: tool.RoleShell, Params: shell, Convert: switching(shell, func(c *call) tool.Role {
		action(c)
		return run(c)
	})},
	converts("write_stdin", tool.RoleJobs, job, stdin),
	planning("update_plan"),
	reading("view_image"),
	converts("request_user_input", tool.RoleAsk, nil, questions),
}, inCalls(running("shell"))...)

var gemini = append([]Alias{
	planning("write_todos"),
	converts("read_background_output", tool.RoleJobs, job, output),
	converts("read_many_files", tool.RoleRead, talk, manyFiles),
}, inCalls(editing("replace"))...)

var opencode = inCalls(
	patching("patch"),
	planning("todowrite"), renames("todoread", tool.RolePlan),
	fetching("webfetch"),
	converts("question", tool.RoleAsk, nil, questions),
)

var anthropic = []Alias{
	{Name: "str_replace_based_edit_tool", Role: tool.RoleEdit, Params: swap, Convert: switching(params(swap, text, map[string]string{"command": "command"}), textEditor)},
	{Name: "str_replace_editor", Role: tool.RoleEdit, Params: swap, Convert: switching(params(swap, text, map[string]string{"command": "command"}), textEditor)},
	{Name: "text_editor", Role: tool.RoleEdit, Params: swap, Convert: switching(params(swap, text, map[string]string{"command": "command"}), textEditor)},
}
