package agent

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestReadServers checks the server formats of different agents, and which servers are skipped.
func TestReadServers(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a.json", `{"mcpServers": {"x": {"command": "c", "args": ["1"], "env": {"A": "b"}, "cwd": "/d"}}}`, "x: c 1 A=b /d"},
		{"a.json", `{"servers": {"x": {"type": "http", "url": "https://x", "headers": {"H": "v"}}}}`, "x: https://x H=v"},
		{"a.json", `{"mcp": {"servers": {"x": {"command": "c"}}}}`, "x: c"},
		{"a.json", `{"mcp": {"x": {"type": "local", "command": ["c", "1"], "environment": {"A": "b"}}}}`, "x: c 1 A=b"},
		{"a.json", `{"mcpServers": {"x": {"httpUrl": "https://x"}}}`, "x: https://x"},
		{"a.toml", "[mcp_servers.x]\nurl = 'https://x'\nbearer_token_env_var = 'T'\n", "x: https://x Authorization=Bearer ${T}"},
		{"a.json", `{"mcpServers": {"x": {"command": "c", "disabled": true}}}`, "x skipped: it is turned off there"},
		{"a.json", `{"mcp": {"x": {"command": ["c"], "enabled": false}}}`, "x skipped: it is turned off there"},
		{"a.json", `{"mcpServers": {"x": {"command": "/bin/toolhost", "args": ["mcp"]}}}`, "x skipped: it is toolhost itself"},
		{"a.json", `{"mcpServers": {"x": {"type": "sse", "url": "https://x"}}}`, "x skipped: it speaks the old transport SSE; use its address for streamable HTTP"},
		{"a.json", `{"mcpServers": {"x": {"command": "c", "envFile": ".env"}}}`, "x skipped: it reads the file envFile, which has no counterpart; add the variables to env"},
		{"a.json", `{"mcpServers": {"x": 3}}`, "x skipped: it has neither a command nor a url"},
		{"a.json", `{"mcpServers": {"x": {"command": 3}}}`, "x skipped: it has neither a command nor a url"},
	} {
		path := filepath.Join(t.TempDir(), tc.name)
		write(t, path, tc.text)
		servers, err := ReadServers(path)
		if err != nil || len(servers) != 1 {
			t.Errorf("%s: %v, %+v", tc.text, err, servers)
			continue
		}
		if got := describe(servers[0]); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.text, got, tc.want)
		}
	}
}

func describe(s Server) string {
	if s.Skip != "" {
		return s.Name + " skipped: " + s.Skip
	}
	out := s.Name + ":"
	for _, word := range slices.Concat(s.Command, []string{s.URL}, pairs(s.Env), pairs(s.Headers), []string{s.Dir}) {
		if word != "" {
			out += " " + word
		}
	}
	return out
}

func pairs(m map[string]string) (out []string) {
	for name, value := range m {
		out = append(out, name+"="+value)
	}
	return out
}
