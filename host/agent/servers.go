package agent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"toolhost.dev/host/agent/internal/agentfile"
)

// Server is an MCP server in the settings of an agent.
type Server struct {
	Name    string
	Command []string
	Env     map[string]string
	Dir     string
	// URL is the address of a server on another machine. Command is then empty.
	URL     string
	Headers map[string]string
	// StartTimeout and Timeout limit the start of the server and each call. Zero means that the settings do not limit
	// them.
	StartTimeout, Timeout time.Duration
	// Skip is the reason why toolhost cannot mount the server. It is empty if toolhost can mount the server.
	Skip string
	// Lost lists the settings that have no counterpart in a field block, as sentences with the file and the line.
	Lost []string
}

// serverKeys lists the paths of servers in the settings of agents. The key "mcp" belongs to opencode. The path
// "mcp.servers" belongs to the settings of VS Code.
var serverKeys = [][]string{{"mcpServers"}, {"servers"}, {"mcp", "servers"}, {"mcp_servers"}, {"mcp"}}

// ReadServers reads the servers from a settings file of an agent. It also reads a file that contains only servers.
func ReadServers(path string) ([]Server, error) {
	c, err := readChange(path)
	if err != nil {
		return nil, err
	}
	if !c.Existed {
		return nil, fmt.Errorf("%s does not exist; name a file such as .mcp.json, ~/.claude.json or opencode.json", path)
	}
	d, err := agentfile.Parse(path, c.Before)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	var at []string
	for _, key := range serverKeys {
		if v, ok := d.Get(key...); ok {
			if found, ok = v.(map[string]any); ok {
				at = key
				break
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no servers; they are expected below mcpServers, servers, mcp or mcp_servers", path)
	}
	var out []Server
	repeated := d.Repeated(at...)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		entry, _ := found[name].(map[string]any)
		s := readServer(name, entry)
		if s.Skip == "" {
			s.Lost = lost(d, path, slices.Concat(at, []string{name}), entry)
		}
		if slices.Contains(repeated, name) {
			s.Lost = append(s.Lost, fmt.Sprintf("%s:%d: the name %s occurs several times; only this last server is read.", path, d.Line(slices.Concat(at, []string{name})...), name))
		}
		out = append(out, s)
	}
	return out, nil
}

// carried lists the settings of a server about which the user gets no message: those that readServer reads, and those
// that mean nothing to toolhost.
var carried = []string{
	"command", "args", "env", "environment", "env_vars", "url", "httpUrl", "serverUrl", "headers", "http_headers",
	"env_http_headers", "cwd", "bearer_token_env_var", "disabled", "enabled", "type", "transport", "envFile", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "name", "description",
}

// Sentences for settings without a direct counterpart. Each names what replaces the setting in a configuration.
const (
	adviceRules = "rules decide which calls need a question; see permissions in the guide of the configuration"
	adviceTools = `the field offers all tools of the server; turn others off by hand: tool "FIELD:TOOL" { enabled = false }`
	adviceLogin = "if the server needs a login, its error names the command; write scopes and a client by hand into oauth { }"
	adviceTime  = `write it by hand, because agents differ in its unit: timeout = "60s" in the field block`
)

// instead maps settings of servers to sentences that name their replacement.
var instead = map[string]string{
	"autoApprove": adviceRules, "alwaysAllow": adviceRules, "trust": adviceRules, "default_tools_approval_mode": adviceRules,
	"includeTools": adviceTools, "excludeTools": adviceTools, "enabled_tools": adviceTools, "disabled_tools": adviceTools, "enabledTools": adviceTools, "disabledTools": adviceTools, "tools": adviceTools,
	"oauth": adviceLogin, "auth": adviceLogin, "scopes": adviceLogin, "oauth_resource": adviceLogin, "authProviderType": adviceLogin,
	"timeout": adviceTime,
}

// lost returns a sentence for each setting of a server that has no counterpart.
func lost(d agentfile.Document, path string, at []string, entry map[string]any) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if slices.Contains(carried, key) {
			continue
		}
		advice := instead[key]
		if advice == "" {
			advice = "it has no counterpart"
		}
		out = append(out, fmt.Sprintf("%s:%d: %s of %s is left out: %s.", path,
			d.Line(slices.Concat(at, []string{key})...), key, at[len(at)-1], advice))
	}
	for _, key := range []string{"env", "environment", "headers", "http_headers"} {
		for _, name := range d.Repeated(slices.Concat(at, []string{key})...) {
			out = append(out,
				fmt.Sprintf("%s:%d: %s of %s contains %s several times; only this last value is read.", path, d.Line(slices.Concat(at, []string{key, name})...), key, at[len(at)-1], name))
		}
	}
	return out
}

func readServer(name string, entry map[string]any) Server {
	s := Server{Name: name, Command: commandOf(entry), Env: texts(entry, "env", "environment"),
		Headers: texts(entry, "headers", "http_headers")}
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := entry[key].(string); ok && len(s.Command) == 0 {
			s.URL = url
		}
	}
	s.Dir, _ = entry["cwd"].(string)
	if name, ok := entry["bearer_token_env_var"].(string); ok && s.Headers == nil { // a setting of Codex
		s.Headers = map[string]string{"Authorization": "Bearer ${" + name + "}"}
	}
	s.codex(entry)
	switch {
	case entry["disabled"] == true || entry["enabled"] == false:
		s.Skip = "it is turned off there"
	case len(s.Command) > 0 && filepath.Base(s.Command[0]) == "toolhost":
		s.Skip = "it is toolhost itself"
	case entry["type"] == "sse":
		s.Skip = "it speaks the old transport SSE; use its address for streamable HTTP"
	case entry["envFile"] != nil:
		s.Skip = "it reads the file envFile, which has no counterpart; add the variables to env"
	case len(s.Command) == 0 && s.URL == "":
		s.Skip = "it has neither a command nor a url"
	}
	return s
}

// codex reads settings that only Codex has.
func (s *Server) codex(entry map[string]any) {
	seconds := func(key string, unit time.Duration) time.Duration {
		n, _ := entry[key].(float64)
		return time.Duration(max(0, n) * float64(unit)).Round(time.Millisecond)
	}
	s.Timeout = seconds("tool_timeout_sec", time.Second)
	if s.StartTimeout = seconds("startup_timeout_sec", time.Second); s.StartTimeout == 0 {
		s.StartTimeout = seconds("startup_timeout_ms", time.Millisecond)
	}
	names, _ := entry["env_vars"].([]any) // variables that the server inherits
	for _, v := range names {
		if name, ok := v.(string); ok {
			s.Env = with(s.Env, name, "${"+name+"}")
		}
	}
	for header, name := range texts(entry, "env_http_headers") {
		s.Headers = with(s.Headers, header, "${"+name+"}")
	}
}

// with returns a map with a value, unless the map has the key already.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = make(map[string]string)
	}
	if _, ok := m[key]; !ok {
		m[key] = value
	}
	return m
}

// texts converts the values of an object to strings. It uses the first of the keys whose value is an object.
func texts(entry map[string]any, keys ...string) map[string]string {
	for _, key := range keys {
		if object, ok := entry[key].(map[string]any); ok {
			out := make(map[string]string)
			for name, value := range object {
				out[name] = fmt.Sprint(value)
			}
			return out
		}
	}
	return nil
}

// NewChange reads a file and returns a change for it. The caller must set After to the new content. NewChange follows
// symbolic links.
func NewChange(path string) (*Change, error) { return readChange(path) }

// Write writes the change. It returns an error if the file changed after it was read.
func (c *Change) Write() error { return c.write(false) }
