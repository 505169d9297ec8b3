package agent

import (
	"bytes"
	"fmt"
	"maps"

	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"toolhost.dev/host/agent/internal/agentfile"
)

// Target is the server that an agent is to use: a program over stdio, or a running server over HTTP.
type Target struct {
	// Program is the program of a server over stdio. Endpoint is the endpoint that the program serves. If Endpoint is
	// empty, an existing entry keeps its endpoint.
	Program, Endpoint string
	// URL is the address of a server over HTTP. If URL is set, Program and Endpoint are not used.
	URL  string
	Auth Auth
	// Variable is the environment variable from which the agent takes the token, for [AuthVariable].
	Variable string
	// Replaces lists addresses. An entry with one of these addresses is replaced.
	Replaces []string
}

// Auth is how an agent authenticates at a server over HTTP.
type Auth int

// The ways to authenticate.
const (
	AuthNone     Auth = iota // the settings have no token, because the agent logs in by OAuth
	AuthVariable             // the settings name an environment variable
	AuthToken                // the settings contain the token
)

// ServerURL returns the address of the MCP server for a base address of "toolhost serve". If endpoint is not empty, it
// returns the address of this endpoint. A base without a path means the path "/mcp".
func ServerURL(base, endpoint string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("--url: %q is not the address of a server; write one such as http://127.0.0.1:7070", base)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--url: %s must not contain a user, a query or a fragment; use the address alone", u.Redacted())
	case u.Scheme == "http" && !Loopback(u):
		return nil, fmt.Errorf("--url: %s would receive the token unencrypted; use https", base)
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path == "" {
		u.Path = "/mcp"
	}
	if endpoint != "" {
		if !strings.HasSuffix(u.Path, "/mcp") {
			return nil, fmt.Errorf("--url: %s already names a path; leave out the path, or leave out --endpoint", base)
		}
		u.Path += "/" + endpoint
	}
	return u, nil
}

// Loopback reports whether an address leads to this machine.
func Loopback(u *url.URL) bool {
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}

// remote describes how the settings of an agent represent a server over HTTP.
type remote struct {
	// kind is the value of the key "type". If it is empty, the entry has no such key.
	kind string
	// headers is the key of the object with the HTTP headers. If it is empty, the key is "headers".
	headers string
	// variable is the format of a reference to an environment variable. If variableKey is not empty, the entry has no
	// header Authorization. Instead, it has the key variableKey with the name of the variable.
	variable, variableKey string
	more                  map[string]any
}

func (r *remote) headersKey() string {
	if r.headers != "" {
		return r.headers
	}
	return "headers"
}

// placeholder stands for the token in a plan, so that no diff and no record contains the token.
const placeholder = "Bearer (token)"

// entry returns the entry of a server over HTTP.
func (r *remote) entry(t *Target) map[string]any {
	out := map[string]any{"url": t.URL}
	if r.kind != "" {
		out["type"] = r.kind
	}
	maps.Copy(out, r.more)
	switch {
	case t.Auth == AuthVariable && r.variableKey != "":
		out[r.variableKey] = t.Variable
	case t.Auth == AuthVariable:
		out[r.headersKey()] = map[string]any{"Authorization": "Bearer " + fmt.Sprintf(r.variable, t.Variable)}
	case t.Auth == AuthToken:
		out[r.headersKey()] = map[string]any{"Authorization": placeholder}
	}
	return out
}

// current reports whether an existing entry already connects to the target in the right way. It compares
// neither the token itself nor keys that a setup does not write.
func (r *remote) current(entry map[string]any, t *Target) bool {
	for key, want := range r.entry(t) {
		if key == r.headersKey() && t.Auth == AuthToken {
			if literal, _ := r.authorization(entry); literal == "" || r.reference(literal) != "" {
				return false
			}
		} else if !agentfile.Same(entry[key], want) {
			return false
		}
	}
	return t.Auth != AuthNone || entry[r.headersKey()] == nil && (r.variableKey == "" || entry[r.variableKey] == nil)
}

// authorization returns the header Authorization of an entry, or the name of the environment variable that contains the
// token.
func (r *remote) authorization(entry map[string]any) (header, variable string) {
	headers, _ := entry[r.headersKey()].(map[string]any)
	header, _ = headers["Authorization"].(string)
	variable, _ = entry[r.variableKey].(string)
	return header, variable
}

// reference returns the environment variable to which a header refers. If the header is literal, it returns "".
func (r *remote) reference(header string) string {
	if r.variable == "" {
		return ""
	}
	pattern := strings.Replace(regexp.QuoteMeta(r.variable), "%s", "([A-Za-z_][A-Za-z0-9_]*)", 1)
	m := regexp.MustCompile("^Bearer " + pattern + "$").FindStringSubmatch(header)
	if m == nil {
		return ""
	}
	return m[1]
}

// SetToken inserts the token into the changes. A file with a token gets a mode with which only its owner can read it.
func (p *Plan) SetToken(token string) {
	for _, c := range p.Changes {
		if bytes.Contains(c.After, []byte(placeholder)) {
			c.After = bytes.ReplaceAll(c.After, []byte(placeholder), []byte("Bearer "+token))
			if c.mode&0o077 != 0 {
				p.Notes = append(p.Notes, fmt.Sprintf("%s contains a token now. Therefore, only you can still read the file.", c.Path))
			}
			c.mode &^= 0o077
		}
	}
}

// RecordToken sets the id of the new token, which [Store.Write] stores in the record. An empty id means that no token
// was created for the agent.
func (p *Plan) RecordToken(id string) { p.token = &id }

// server adds the server, or corrects its entry. It returns an error if a different server has the same name.
func (p *Plan) server(c *Change, d agentfile.Document, s settings) error {
	path := slices.Concat(s.servers, []string{p.Place.Server})
	want := s.remote.entry(p.Target)
	if p.Target.URL == "" {
		want = s.entry(p.Target.command(nil))
	}
	was, had := d.Get(path...)
	entry, _ := was.(map[string]any)
	if !had {
		return c.set(d, operation{Path: path, Value: want})
	}
	command, address := commandOf(entry), text(entry, "url", "httpUrl")
	program := len(command) > 0 && filepath.Base(command[0]) == "toolhost" && slices.Contains(command, "mcp")
	web := len(command) == 0 && address != "" &&
		(address == p.Target.URL || slices.Contains(p.Target.Replaces, address))
	if !program && !web || p.Place.Project && !ordinary(entry, command, s) {
		return fmt.Errorf("%s already has another server with the name %q; remove it, or choose a name with --name", c.Path, p.Place.Server)
	}
	if p.Target.URL == "" && program {
		return p.correct(c, d, s, path, entry)
	}
	if p.Target.URL != "" && web && s.remote.current(entry, p.Target) {
		return nil
	}
	return c.set(d, operation{Path: path, Value: want, Before: was, Had: true})
}

// ordinary reports whether an entry has only settings that a setup writes. With further settings, the author
// of a repository could make the agent run any program.
func ordinary(entry map[string]any, command []string, s settings) bool {
	known := []string{"command", "args", "type", "url", "trust", "default_tools_approval_mode", s.remote.headersKey(),
		s.remote.variableKey}
	for key := range entry {
		if _, more := s.remote.more[key]; !more && !slices.Contains(known, key) {
			return false
		}
	}
	if len(command) == 0 {
		return true
	}
	args := command[1:]
	return slices.Equal(args, []string{"mcp"}) ||
		len(args) == 3 && args[0] == "mcp" && args[1] == "--endpoint" && !strings.HasPrefix(args[2], "-")
}

// command returns the command that starts the server over stdio. If a command exists, its arguments are kept, except
// those that a setup sets.
func (t *Target) command(args []string) []string {
	if len(args) == 0 {
		args = []string{"mcp"}
	}
	out := []string{t.Program}
	if t.Endpoint == "" {
		return append(out, args...)
	}
	for i := 0; i < len(args); i++ {
		if args[i] == "--endpoint" {
			i++
		} else if !strings.HasPrefix(args[i], "--endpoint=") {
			out = append(out, args[i])
		}
	}
	return append(out, "--endpoint", t.Endpoint)
}

// correct changes the program and the endpoint of an existing entry of a server over stdio.
func (p *Plan) correct(c *Change, d agentfile.Document, s settings, path []string, entry map[string]any) error {
	was := commandOf(entry)
	now := p.Target.command(was[1:])
	if sameProgram(was[0], p.Target.Program) {
		now[0] = was[0]
	}
	if slices.Equal(was, now) {
		return nil
	}
	values := map[string]any{"command": now}
	if !s.list {
		values = map[string]any{"command": now[0], "args": now[1:]}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		before, had := entry[key]
		if had && agentfile.Same(before, values[key]) {
			continue
		}
		if err := c.set(d, operation{Path: slices.Concat(path, []string{key}), Value: values[key], Before: before,
			Had: had}); err != nil {
			return err
		}
	}
	return nil
}

// set makes an edit and records it.
func (c *Change) set(d agentfile.Document, op operation) error {
	if err := replace(d, op.Value, op.Path...); err != nil {
		return err
	}
	c.ops = append(c.ops, op)
	return nil
}

// replace sets a value. If the value is an object that already exists, the function also deletes the keys
// that the new object does not have.
func replace(d agentfile.Document, value any, path ...string) error {
	if object, ok := value.(map[string]any); ok {
		was, _ := d.Get(path...)
		before, _ := was.(map[string]any)
		for key := range before {
			if _, stays := object[key]; stays {
				continue
			}
			if err := d.Delete(slices.Concat(path, []string{key})...); err != nil {
				return err
			}
		}
	}
	return d.Set(value, path...)
}

// text returns the first string among the values of the given keys.
func text(entry map[string]any, keys ...string) string {
	for _, key := range keys {
		if v, ok := entry[key].(string); ok {
			return v
		}
	}
	return ""
}

// Launch describes how an agent starts its server, or how it connects to the server.
type Launch struct {
	Command []string
	Env     []string
	Dir     string

	URL string
	// Authorization is the header that authenticates the agent. Variable is the environment variable from which the
	// agent takes the token. If the argument "environ" of [Plan.Launch] does not set this variable, Authorization is
	// empty.
	Authorization, Variable string
}

// Launch reads the settings from the files again. For a server over stdio, it returns the command, the environment and
// the directory with which the agent starts it. For a server over HTTP, it returns the address and the header.
func (p *Plan) Launch(environ []string) (*Launch, error) {
	i := slices.IndexFunc(p.Agent.files(p.Place), func(s settings) bool { return s.servers != nil })
	if i < 0 {
		return nil, fmt.Errorf("%s has no file for servers", p.Agent.Title)
	}
	s := p.Agent.files(p.Place)[i]
	c, err := readChange(s.path)
	if err != nil {
		return nil, err
	}
	d, err := agentfile.Parse(s.path, c.Before)
	if err != nil {
		return nil, err
	}
	was, _ := d.Get(slices.Concat(s.servers, []string{p.Place.Server})...)
	entry, _ := was.(map[string]any)
	out := &Launch{Command: commandOf(entry), Dir: p.Place.Dir, URL: text(entry, "url", "httpUrl"),
		Env: slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return p.Agent.environment != nil && !slices.Contains(p.Agent.environment, name)
		})}
	if len(out.Command) == 0 && out.URL != "" {
		out.Authorization, out.Variable = s.remote.authorization(entry)
		if v := s.remote.reference(out.Authorization); v != "" {
			out.Authorization, out.Variable = "", v
		}
		if token := p.Place.Getenv(out.Variable); out.Variable != "" && token != "" {
			out.Authorization = "Bearer " + token
		}
		return out, nil
	}
	if len(out.Command) == 0 {
		return nil, fmt.Errorf("%s has no server %q", s.path, p.Place.Server)
	}
	if dir, ok := entry["cwd"].(string); ok && filepath.IsAbs(dir) {
		out.Dir = dir
	}
	for _, key := range []string{"env", "environment"} {
		env, _ := entry[key].(map[string]any)
		for name, value := range env {
			out.Env = append(out.Env, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return out, nil
}
