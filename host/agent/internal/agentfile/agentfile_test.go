package agentfile

import (
	"strings"
	"testing"
)

// TestJSON checks that edits of JSON keep comments, order, indentation and line endings.
func TestJSON(t *testing.T) {
	set := func(d Document) error {
		if err := d.Set(map[string]any{"command": "x"}, "mcpServers", "toolhost"); err != nil {
			return err
		}
		return d.Add("Bash", "permissions", "deny")
	}
	unset := func(d Document) error {
		if err := d.Delete("mcpServers", "toolhost"); err != nil {
			return err
		}
		return d.Remove("Bash", "permissions", "deny")
	}
	for _, tc := range []struct{ in, out, back string }{
		{"", "{\n  \"mcpServers\": {\n    \"toolhost\": {\n      \"command\": \"x\"\n    }\n  },\n  \"permissions\": {\n    \"deny\": [\n      \"Bash\"\n    ]\n  }\n}\n", "{\n  \"mcpServers\": {},\n  \"permissions\": {\n    \"deny\": []\n  }\n}\n"},
		{
			"{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": {} // last\n\t},\n\t\"permissions\": {\"deny\": [\"X\"]}\n}",
			"{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": {}, // last\n\t\t\"toolhost\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"permissions\": {\"deny\": [\"X\", \"Bash\"]}\n}",
			"{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": {} // last\n\t},\n\t\"permissions\": {\"deny\": [\"X\"]}\n}",
		},
		{
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {},\r\n  \"permissions\": {\r\n    \"deny\": [\r\n      \"X\", // why\r\n    ],\r\n  },\r\n}\r\n",
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"toolhost\": {\r\n      \"command\": \"x\"\r\n    }\r\n  },\r\n  \"permissions\": {\r\n    \"deny\": [\r\n      \"X\", // why\r\n      \"Bash\",\r\n    ],\r\n  },\r\n}\r\n",
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {},\r\n  \"permissions\": {\r\n    \"deny\": [\r\n      \"X\", // why\r\n    ],\r\n  },\r\n}\r\n",
		},
		{`{"a":1}`, `{"a":1, "mcpServers": {"toolhost": {"command":"x"}}, "permissions": {"deny": ["Bash"]}}`, `{"a":1, "mcpServers": {}, "permissions": {"deny": []}}`},
		{`{"permissions": {"deny": ["Bash"]}, "mcpServers": {"toolhost": {"command": "x"}}}`, `{"permissions": {"deny": ["Bash"]}, "mcpServers": {"toolhost": {"command": "x"}}}`, `{"permissions": {"deny": []}, "mcpServers": {}}`},
	} {
		d, err := Parse("s.json", []byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		if err := set(d); err != nil {
			t.Errorf("%q: %v", tc.in, err)
		}
		if got := string(d.Bytes()); got != tc.out {
			t.Errorf("%q\n got %q\nwant %q", tc.in, got, tc.out)
		}
		if err := set(d); err != nil || string(d.Bytes()) != tc.out {
			t.Errorf("%q: a second edit changes it: %v\n%s", tc.in, err, d.Bytes())
		}
		again, err := Parse("s.json", d.Bytes())
		if err != nil {
			t.Fatalf("%q: %v", tc.in, err)
		}
		if err := unset(again); err != nil || string(again.Bytes()) != tc.back {
			t.Errorf("%q: %v\n got %q\nwant %q", tc.in, err, again.Bytes(), tc.back)
		}
	}
}

// TestTOML checks that an edit of TOML keeps all other text.
func TestTOML(t *testing.T) {
	server := map[string]any{"command": "/x", "args": []string{"mcp"}}
	for _, tc := range []struct{ in, out string }{
		{"", "[features]\nshell_tool = false\n\n[mcp_servers.toolhost]\nargs = ['mcp']\ncommand = '/x'\n"},
		{
			"model = \"m\" # mine\n\n# features\n[features] # of mine\nweb = true # on\n\n[mcp_servers.a]\ncommand = \"a\"",
			"model = \"m\" # mine\n\n# features\n[features] # of mine\nweb = true # on\nshell_tool = false\n\n[mcp_servers.a]\ncommand = \"a\"\n\n[mcp_servers.toolhost]\nargs = ['mcp']\ncommand = '/x'\n",
		},
		{
			"[features]\nshell_tool = true\n[mcp_servers.toolhost]\nargs = [\n  \"old\", # c\n]\nenv = { A = \"b\" }\n",
			"[features]\nshell_tool = false\n[mcp_servers.toolhost]\nargs = ['mcp']\nenv = { A = \"b\" }\ncommand = '/x'\n",
		},
		{"[features]\r\n[x]\r\n", "[features]\r\nshell_tool = false\r\n[x]\r\n\r\n[mcp_servers.toolhost]\r\nargs = ['mcp']\r\ncommand = '/x'\r\n"},
	} {
		d, err := Parse("c.toml", []byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.Set(false, "features", "shell_tool"); err != nil {
				t.Error(err)
			}
			if err := d.Set(server, "mcp_servers", "toolhost"); err != nil {
				t.Error(err)
			}
			if got := string(d.Bytes()); got != tc.out {
				t.Errorf("%q\n got %q\nwant %q", tc.in, got, tc.out)
			}
		}
	}
	d, err := Parse("c.toml", []byte("a = 1\n\n[features]\nshell_tool = false\nx = 1\n\n[mcp_servers.toolhost]\ncommand = 'x'\n\n[mcp_servers.toolhost.env]\nA = 'b'\n\n[z]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range [][]string{{"mcp_servers", "toolhost"}, {"features", "shell_tool"}, {"none"}} {
		if err := d.Delete(path...); err != nil {
			t.Error(err)
		}
	}
	if got, want := string(d.Bytes()), "a = 1\n\n[features]\nx = 1\n\n[z]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	top, err := Parse("c.toml", []byte("[a]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := top.Set("x", "b"); err != nil || string(top.Bytes()) != "b = 'x'\n\n[a]\n" {
		t.Errorf("%v\n%s", err, top.Bytes())
	}
	if err := d.Set("read-only", "sandbox_mode"); err != nil || !strings.HasPrefix(string(d.Bytes()), "a = 1\nsandbox_mode = 'read-only'\n\n[features]") {
		t.Errorf("%v\n%s", err, d.Bytes())
	}
}

// TestForms checks that an edit of a document in an unsupported form returns an error and does not change the document.
func TestForms(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"c.toml", "features = { web = true }\n", "c.toml: features.shell_tool cannot be added to the form in which it is written; write it by hand: shell_tool = false"},
		{"s.json", "{\"features\": 3}", "s.json: features is not an object; change it by hand"},
	} {
		d, err := Parse(tc.name, []byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Set(false, "features", "shell_tool"); err == nil || err.Error() != tc.want || string(d.Bytes()) != tc.in {
			t.Errorf("%v\n%s", err, d.Bytes())
		}
	}
	for name, in := range map[string]string{"s.json": "{\n  \"a\": tru\n}", "list.json": "[1]", "c.toml": "a = \n"} {
		if _, err := Parse(name, []byte(in)); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "correct the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse("s.json", []byte("{\"a\": [1]}")); err != nil {
		t.Error(err)
	}
}

// TestQuestions checks what a document says about its keys, in both formats.
func TestQuestions(t *testing.T) {
	for name, text := range map[string]string{
		"s.json": "{\n  // mine\n  \"a\": {\n    \"b\": [\"x\"], // why\n    \"b\": [\"y\", 2]\n  },\n  \"a\": {\"b\": [\"y\", 2], \"b\": [\"y\", 2]}\n}\n",
		"c.toml": "# mine\nz = 1\n\n\n\n\n[a]\n# b\nb = [\n  'y',\n  2,\n]\nc = 3\n",
	} {
		d, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := d.Get("a", "b"); !ok || !Same(v, []any{"y", 2}) {
			t.Errorf("%s: %v", name, v)
		}
		for _, path := range [][]string{{"none"}, {"a", "none"}, {"a", "b", "c"}, {"a", "none", "b"}} {
			if v, ok := d.Get(path...); ok || d.Line(path...) != 0 {
				t.Errorf("%s: %s is %v, in line %d", name, path, v, d.Line(path...))
			}
		}
		if d.Line("a") != 7 || d.Line() > 2 {
			t.Errorf("%s: a is in line %d, the document in line %d", name, d.Line("a"), d.Line())
		}
		if again := strings.Join(d.Repeated("a"), " ") + " " + strings.Join(d.Repeated(), " "); again != map[string]string{"s.json": "b a", "c.toml": " "}[name] || d.Repeated("none") != nil {
			t.Errorf("%s: %q occurs twice", name, again)
		}
	}
	if Same(func() {}, 1) || !Same([]string{"x"}, []any{"x"}) || Same(1, "1") {
		t.Error("values are compared as JSON")
	}
}

// TestLists checks that an item is added to a list once and removed again, and that no other value is taken for a list.
func TestLists(t *testing.T) {
	d, err := Parse("s.json", []byte(`{"list": ["x"], "other": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return d.Add("y", "list") }, `{"list": ["x", "y"], "other": 1}`},
		{func() error { return d.Add("y", "list") }, `{"list": ["x", "y"], "other": 1}`},
		{func() error { return d.Remove("none", "list") }, `{"list": ["x", "y"], "other": 1}`},
		{func() error { return d.Remove("x", "none") }, `{"list": ["x", "y"], "other": 1}`},
		{func() error { return d.Remove("y", "list") }, `{"list": ["x"], "other": 1}`},
		{func() error { return d.Delete("none", "x") }, `{"list": ["x"], "other": 1}`},
	} {
		if err := step.do(); err != nil || string(d.Bytes()) != step.want {
			t.Errorf("%v, %s, want %s", err, d.Bytes(), step.want)
		}
	}
	for name, err := range map[string]error{"add": d.Add("x", "other"), "delete": d.Delete("other", "x")} {
		if err == nil || !strings.Contains(err.Error(), "s.json: other is not a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
