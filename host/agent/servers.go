package agent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

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
	// Skip is the reason why toolhost cannot mount the server. It is empty if toolhost can mount the server.
	Skip string
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
	for _, key := range serverKeys {
		if v, ok := d.Get(key...); ok {
			if found, ok = v.(map[string]any); ok {
				break
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no servers; they are expected below mcpServers, servers, mcp or mcp_servers", path)
	}
	var out []Server
	for _, name := range slices.Sorted(maps.Keys(found)) {
		entry, _ := found[name].(map[string]any)
		out = append(out, readServer(name, entry))
	}
	return out, nil
}

func readServer(name string, entry map[string]any) Server {
	s := Server{Name: name, Command: commandOf(entry), Env: texts(entry, "env", "environment"), Headers: texts(entry, "headers", "http_headers")}
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := entry[key].(string); ok && len(s.Command) == 0 {
			s.URL = url
		}
	}
	s.Dir, _ = entry["cwd"].(string)
	if name, ok := entry["bearer_token_env_var"].(string); ok && s.Headers == nil { // a setting of Codex
		s.Headers = map[string]string{"Authorization": "Bearer ${" + name + "}"}
	}
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
