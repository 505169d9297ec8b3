package habit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestNames checks that each name has only one meaning.
func TestNames(t *testing.T) {
	seen := make(map[string]string)
	for _, preset := range slices.Sorted(maps.Keys(Presets)) {
		for _, a := range Presets[preset] {
			if other, again := seen[a.Name]; again {
				t.Errorf("%s is in %s and in %s", a.Name, other, preset)
			}
			seen[a.Name] = preset
		}
	}
}

// TestConversions checks the converted arguments, and the calls that conversions refuse.
func TestConversions(t *testing.T) {
	for _, c := range []struct{ preset, name, args, tool, want, fails string }{
		{"common", "read_file", `{"path":"f","start_line":3,"end_line":"5"}`, "read", `{"file_path":"f","limit":3,"offset":3}`, ""},
		{"common", "read_file", `{"path":"f","end_line":5}`, "read", `{"file_path":"f","limit":5}`, ""},
		{"common", "read_file", `{"path":"f","start_line":3,"end_line":-1}`, "read", `{"file_path":"f","offset":3}`, ""},
		{"common", "read_file", `{"path":"f","start_line":5,"end_line":3}`, "", "", "before the first line"},
		{"common", "read_file", `{"path":"f","start_line":0}`, "", "", "counted from 1"},
		{"common", "read_file", `{"path":"f","file_path":"g"}`, "", "", "given twice"},
		{"common", "read_file", `{"path":"f","target_file":"f"}`, "read", `{"file_path":"f"}`, ""},
		{"common", "read_file", `{"filePath":"f","startLine":2}`, "read", `{"file_path":"f","offset":2}`, ""},
		{"common", "read_file", `{"path":"f","nonsense":1}`, "read", `{"file_path":"f","nonsense":1}`, ""},
		{"claude", "Read", `{"file_path":"f","pages":"1-5"}`, "read", `{"file_path":"f","pages":"1-5"}`, ""},
		{"claude", "Grep", `{"pattern":"x","-A":2,"-i":true,"glob":"*.{a,b}"}`, "grep", `{"after":2,"glob":["*.{a,b}"],"ignore_case":true,"pattern":"x"}`, ""},
		{"claude", "Grep", `{"pattern":"x","glob":5}`, "grep", `{"glob":5,"pattern":"x"}`, ""},
		{"claude", "Grep", `{"pattern":"x","-o":true}`, "grep", `{"only_matching":true,"pattern":"x"}`, ""},
		{"gemini", "read_many_files", `{"paths":["a","b"],"recursive":false}`, "read", `{"file_path":"a","more_files":["b"]}`, ""},
		{"gemini", "read_many_files", `{"include":["a.go"]}`, "read", `{"file_path":"a.go"}`, ""},
		{"gemini", "read_many_files", `{"paths":["src/**/*.go"]}`, "", "", "find the files first"},
		{"common", "grep_search", `{"pattern":"x","max_matches_per_file":3}`, "grep", `{"max_count":3,"pattern":"x"}`, ""},
		{"claude", "LS", `{"path":"p","ignore":["a","**/b/**"]}`, "list", `{"path":"p","pattern":"!{a,b}"}`, ""},
		{"common", "grep_search", `{"query":"x","exclude_pattern":"*.md","case_sensitive":false}`, "grep", `{"glob":["!*.md"],"ignore_case":true,"pattern":"x"}`, ""},
		{"common", "glob", `{"pattern":"[ab]*.Md","case_sensitive":false}`, "glob", `{"pattern":"[ab]*.[mM][dD]"}`, ""},
		{"codex", "shell", `{"command":["bash","-lc","a && b"],"workdir":"d","timeout_ms":5}`, "bash", `{"command":"a \u0026\u0026 b","cwd":"d","timeout":5}`, ""},
		{"codex", "shell", `{"command":["echo","it's","$x",""]}`, "bash", `{"command":"echo 'it'\\''s' '$x' ''"}`, ""},
		{"codex", "shell", `{"command":["apply_patch","*** Begin Patch\n*** Delete File: x\n*** End Patch"]}`, "edit", `{"diff":"*** Begin Patch\n*** Delete File: x\n*** End Patch\n"}`, ""},
		{"codex", "shell", `{"command":"apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: x\n*** End Patch\nEOF\n"}`, "edit", `{"diff":"*** Begin Patch\n*** Delete File: x\n*** End Patch\n"}`, ""},
		{"codex", "shell", `{"command":"apply_patch <<'EOF' && rm y\n*** Begin Patch\n*** Delete File: x\n*** End Patch\nEOF\n"}`, "bash", "", ""},
		{"codex", "shell", `{"command":"apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: x\n*** End Patch\nEOF\nrm y"}`, "bash", "", ""},
		{"codex", "shell", `{"command":"echo apply_patch; echo '*** Begin Patch *** End Patch'"}`, "bash", "", ""},
		{"codex", "write_stdin", `{"session_id":7,"chars":"y\n"}`, "job", `{"action":"write","id":"7","input":"y\n"}`, ""},
		{"codex", "write_stdin", `{"session_id":7,"chars":"","yield_time_ms":50}`, "job", `{"action":"wait","id":"7","timeout":50}`, ""},
		{"codex", "write_stdin", `{"session_id":7,"chars":"\u0003"}`, "job", `{"action":"kill","id":"7"}`, ""},
		{"anthropic", "str_replace_editor", `{"command":"insert","path":"f","insert_line":2,"insert_text":"a\nb\n"}`, "edit", `{"diff":"@@ -2,0 +3,2 @@\n+a\n+b\n","file_path":"f"}`, ""},
		{"anthropic", "str_replace_editor", `{"command":"insert","path":"f","insert_line":-1,"insert_text":"a"}`, "", "", "not a line number"},
		{"anthropic", "str_replace_editor", `{"command":"remove","path":"f"}`, "", "", "must be view, create"},
		{"anthropic", "str_replace_editor", `{"command":"create","path":"f"}`, "", "", `"content" is missing`},
		{"common", "bash", `{"restart":true}`, "", "", "needs no restart"},
		{"common", "edit_file", `{"path":"f","edits":[{"oldText":"a","newText":"b"}],"dryRun":true}`, "", "", "dryRun"},
		{"claude", "TodoWrite", `{"todos":[{"content":"a","status":"in_progress","activeForm":"Doing a"}]}`, "todo", `{"todos":[{"content":"a","status":"in_progress"}]}`, ""},
		{"codex", "update_plan", `{"explanation":"x","plan":[{"step":"a","status":"completed"},{"step":"b","status":"pending"}]}`, "todo", `{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}`, ""},
		{"gemini", "write_todos", `{"todos":[{"description":"a","status":"cancelled"}]}`, "todo", `{"todos":[{"content":"a","status":"cancelled"}]}`, ""},
		{"opencode", "todowrite", `{"todos":"[{\"id\":1,\"content\":\"a\",\"status\":\"In Progress\",\"priority\":\"high\"},\"b\"]"}`, "todo", `{"todos":[{"content":"a","id":"1","priority":"high","status":"in_progress"},{"content":"b"}]}`, ""},
		{"common", "todo", `{"plan":[{"step":"a","status":"done"}]}`, "todo", `{"todos":[{"content":"a","status":"completed"}]}`, ""},
		{"common", "todo", `{"todos":[{"content":"a","description":"more","nonsense":1}]}`, "todo", `{"todos":[{"content":"a","description":"more","nonsense":1}]}`, ""},
		{"common", "todo", `{"todos":[{"step":"a","task":"b"},{"step":"c","task":"d"}]}`, "", "", `task 1: parameter "content" is given twice; task 2: parameter "content" is given twice`},
		{"common", "todo_write", `{"merge":false,"todos":["a"]}`, "todo", `{"todos":[{"content":"a"}]}`, ""},
		{"common", "todo_write", `{"merge":true,"todos":["a"]}`, "", "", "send the whole list"},
		{"common", "todo", `{"todos":[5]}`, "todo", `{"todos":[5]}`, ""},
		{"common", "todo", `{"todos":null}`, "todo", `{"todos":null}`, ""},
		{"claude", "NotebookRead", `{"notebook_path":"n.ipynb"}`, "read", `{"file_path":"n.ipynb"}`, ""},
		{"common", "ask_user", `{"questions":[{"question":"a"},{"question":"b","options":[{"label":"x","description":"y"}],"multiSelect":true}]}`, "ask_user", `{"questions":[{"question":"a"},{"free_text":true,"multiple":true,"options":["x"],"question":"b\nx: y"}]}`, ""},
		{"common", "ask_user", `{"questions":[{"question":"a","type":"yesno"}]}`, "ask_user", `{"free_text":true,"options":["Yes","No"],"question":"a"}`, ""},
		{"common", "web_fetch", `{"prompt":"Compare https://a.example/x, and https://a.example/x."}`, "web_fetch", `{"url":"https://a.example/x"}`, ""},
		{"common", "web_fetch", `{"prompt":"Compare https://a.example and https://b.example"}`, "", "", "contains 2 URLs; make one call for each"},
		{"common", "web_fetch", `{"prompt":"Hello"}`, "", "", "the prompt contains no URL; set url"},
		{"claude", "WebFetch", `{"url":"https://a.example","prompt":"see https://b.example"}`, "web_fetch", `{"url":"https://a.example"}`, ""},
		{"common", "fetch", `{"url":"https://a.example","raw":"true","start_index":7}`, "web_fetch", `{"format":"html","offset":7,"url":"https://a.example"}`, ""},
	} {
		var args Args
		if err := json.Unmarshal([]byte(c.args), &args); err != nil {
			t.Fatal(err)
		}
		before := maps.Clone(args)
		role, out, err := Converter(c.preset, c.name)(args)
		text, _ := json.Marshal(out)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s %s: %s, %v", c.name, c.args, text, err)
			}
		case err != nil || role != (&tool.Definition{Name: c.tool}).Claims() || c.want != "" && string(text) != c.want:
			t.Errorf("%s %s: %s %s, %v", c.name, c.args, role, text, err)
		}
		if !maps.EqualFunc(args, before, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Errorf("%s %s: the arguments changed", c.name, c.args)
		}
	}
}

// FuzzConvert checks that no arguments make a conversion panic. It also checks that an argument with an effect is never
// lost.
func FuzzConvert(f *testing.F) {
	f.Add("common", "read_file", `{"path":"f","start_line":3}`)
	f.Add("codex", "shell", `{"command":["bash","-lc","ls"]}`)
	f.Add("anthropic", "str_replace_editor", `{"command":"view","path":"f","view_range":[1,2]}`)
	f.Add("claude", "AskUserQuestion", `{"questions":[{"question":"a","options":[{"label":"b"}]}]}`)
	f.Fuzz(func(t *testing.T, preset, name, text string) {
		convert := Converter(preset, name)
		var args Args
		if convert == nil || json.Unmarshal([]byte(text), &args) != nil {
			return
		}
		tool, out, err := convert(args)
		if (err == nil) != (tool != "") {
			t.Errorf("tool %q, error %v", tool, err)
		}
		for name, v := range out {
			if !json.Valid(v) {
				t.Errorf("%s is %q", name, v)
			}
		}
		if v, ok := args["never_known"]; ok && err == nil && string(out["never_known"]) != string(v) {
			t.Error("an unknown argument disappeared")
		}
	})
}
