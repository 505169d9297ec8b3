//go:build oracle

package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestPublicToolsPassThrough calls the tools of pinned public servers directly and through the host; see [passThrough].
func TestPublicToolsPassThrough(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int{"everything": 14, "filesystem": 14, "memory": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := []string{hosttest.Peer(t, "node_modules/node/bin/node"), hosttest.Peer(t, "node_modules/@modelcontextprotocol/server-"+name+"/dist/index.js")}
			if name == "filesystem" {
				command = append(command, ".")
			}
			n := passThrough(t, command, nil, fmt.Sprintf("sandbox { read = [%q] }", hosttest.Peer(t, "")))
			t.Logf("%+v", n)
			if n.tools < least || n.refused > 0 {
				t.Errorf("%+v, want at least %d tools, and no refused call", n, least)
			}
		})
	}
}

// passed counts what [passThrough] called.
type passed struct {
	tools, calls int
	refused      int // calls that the host refused, as the server did
	varying      int // calls whose results differ between two servers
	unanswered   int // tools that did not answer in time
}

// These are the times that a server has for its start and for one answer. A tool that takes longer is left out.
const (
	startLimit = time.Minute
	askLimit   = 20 * time.Second
)

// unsafeTools matches the names of tools that could change the machine.
var unsafeTools = regexp.MustCompile(`(?i)kill|terminate|shutdown|reboot|restart|install|upgrade|self`)

// passThrough calls each tool of a server with several arguments: directly twice, and through the host. A recorder
// between the host and the server shows that the server gets the arguments of the client, and the client the result of
// the server. If both direct calls have the same result, so has the call through the host. The text "field" is added to
// the field block; if it is empty, the sandbox is off.
func passThrough(t *testing.T, command []string, env map[string]string, field string) (n passed) {
	t.Helper()
	p := &passing{t: t, command: command, env: env, field: field}
	p.start()
	for _, def := range p.direct.tools() {
		function, ok := p.functions[def.Name]
		if !ok {
			t.Errorf("the mount has no tool %s", def.Name)
			continue
		}
		if unsafeTools.MatchString(def.Name) {
			continue
		}
		called := false
		for _, args := range generatedArguments(def.InputSchema) {
			answered := p.compare(def.Name, function, args, &n)
			called = called || answered
			if !answered {
				n.unanswered++
				p.start()
				break
			}
			n.calls++
		}
		if called {
			n.tools++
		}
	}
	p.end()
	return n
}

// passing has two servers that are called directly, and the host with a third one.
type passing struct {
	t              *testing.T
	command        []string
	env            map[string]string
	field          string
	direct, second *lineClient
	through        *lineClient
	functions      map[string]string // the function of each tool
	record         string            // the recorder's file
}

func (p *passing) start() {
	p.t.Helper()
	p.end()
	p.direct, p.second = p.startServer(), p.startServer()
	home, err := filepath.EvalSymlinks(p.t.TempDir())
	hosttest.Must(p.t, err)
	p.record = filepath.Join(home, "record")
	argv, err := json.Marshal(append([]string{filepath.Join(hosttest.Bin, "testserver"), "record", p.record}, p.command...))
	hosttest.Must(p.t, err)
	var variables strings.Builder
	for k, v := range p.variables(home) {
		fmt.Fprintf(&variables, "      %s = %q\n", k, v)
	}
	config := fmt.Sprintf("bundled = false\nfield \"m\" {\n  start_timeout = \"60s\"\n  %s\n  mcp {\n    command = %s\n    env = {\n%s    }\n  }\n}\n", p.field, argv, variables.String())
	if p.field == "" {
		config += "sandbox {\n  enforce = \"off\"\n}\n"
	}
	hosttest.Must(p.t, os.WriteFile(filepath.Join(home, "toolhost.hcl"), []byte(config), 0o600))
	b, err := hosttest.Toolhost(p.t, home, "tools", "--format", "json").Output()
	hosttest.Must(p.t, err)
	var tools []struct {
		Name     string
		Original string `json:"original_name"`
		Function string `json:"function_name"`
	}
	hosttest.Must(p.t, json.Unmarshal(b, &tools))
	p.functions = make(map[string]string)
	for _, tool := range tools {
		p.functions[cmp.Or(tool.Original, tool.Name)] = tool.Function
	}
	p.through = startLines(p.t, hosttest.Toolhost(p.t, home, "mcp"))
}

// variables returns the environment of a server that runs in a directory. No server reaches the network.
func (p *passing) variables(dir string) map[string]string {
	env := maps.Clone(p.env)
	if env == nil {
		env = make(map[string]string)
	}
	env["PATH"], env["HOME"], env["MEMORY_FILE_PATH"] = filepath.Dir(p.command[0])+":/usr/bin:/bin", dir, filepath.Join(dir, "memory.jsonl")
	env["SHELL"] = "/bin/sh"
	env["NODE_USE_ENV_PROXY"], env["HTTP_PROXY"], env["HTTPS_PROXY"], env["NO_PROXY"] = "1", "http://127.0.0.1:1", "http://127.0.0.1:1", ""
	return env
}

func (p *passing) startServer() *lineClient {
	dir, err := filepath.EvalSymlinks(p.t.TempDir())
	hosttest.Must(p.t, err)
	c := exec.Command(p.command[0], p.command[1:]...)
	c.Dir, c.Env = dir, []string{}
	for k, v := range p.variables(dir) {
		c.Env = append(c.Env, k+"="+v)
	}
	return startLines(p.t, c)
}

func (p *passing) end() {
	for _, c := range []*lineClient{p.direct, p.second, p.through} {
		if c != nil {
			c.end()
		}
	}
}

// compare calls a tool everywhere. It returns false if an answer is missing.
func (p *passing) compare(name, function, args string, n *passed) bool {
	st, err := os.Stat(p.record)
	hosttest.Must(p.t, err)
	var want, again, got *answer
	var all sync.WaitGroup
	all.Go(func() { want = p.direct.call(name, args) })
	all.Go(func() { again = p.second.call(name, args) })
	all.Go(func() { got = p.through.call(function, args) })
	all.Wait()
	if want == nil || again == nil || got == nil {
		p.t.Logf("%s %s: no answer in time", name, args)
		return false
	}
	f, err := os.Open(p.record)
	hosttest.Must(p.t, err)
	defer f.Close()
	_, err = f.Seek(st.Size(), io.SeekStart)
	hosttest.Must(p.t, err)
	lines, err := io.ReadAll(f)
	hosttest.Must(p.t, err)
	sent, received := recorded(lines)
	shown := got.shown(p.t)
	switch {
	case sent == nil && (want.fails() || !strings.Contains(shown, `"isError":true`)):
		n.refused++
		return true
	case sent == nil:
		p.t.Errorf("%s %s: the host refuses the call: %s\nand the server does not: %s", name, args, shown, want.shown(p.t))
		return true
	case !sameJSON(p.t, string(sent), args):
		p.t.Errorf("%s %s: the server got %s", name, args, sent)
	}
	if other := received.shown(p.t); !sameJSON(p.t, shown, other) {
		p.t.Errorf("%s %s:\nthe client got  %.2000s\nthe server sent %.2000s", name, args, shown, other)
	}
	a, b, c := p.direct.neutral(want.shown(p.t)), p.second.neutral(again.shown(p.t)), p.through.neutral(received.shown(p.t))
	switch {
	case a != b:
		n.varying++
	case a != c && name != "get-env":
		p.t.Errorf("%s %s:\nthrough the host: %.2000s\ndirectly:         %.2000s", name, args, c, a)
	}
	return true
}

// recorded returns the arguments of the call in the lines of a recorder, and the answer of the server.
func recorded(lines []byte) (args json.RawMessage, answer *answer) {
	var id json.RawMessage
	for line := range bytes.Lines(lines) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments json.RawMessage }
		}
		if json.Unmarshal(line[1:], &m) != nil {
			continue
		}
		switch {
		case line[0] == '>' && m.Method == "tools/call":
			id, args = m.ID, m.Params.Arguments
		case line[0] == '<' && m.Method == "" && bytes.Equal(m.ID, id):
			answer = answerIn(line[1:])
		}
	}
	return args, answer
}

// answer is the answer to a request.
type answer struct {
	Result map[string]json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func answerIn(line []byte) *answer {
	a := new(answer)
	if json.Unmarshal(line, a) != nil {
		return nil
	}
	return a
}

func (a *answer) fails() bool { return a.Error != nil || string(a.Result["isError"]) == "true" }

// shown returns what a client shows of an answer: the parts of the result without what toolhost adds. The host passes
// an error of the protocol on as a result with its message.
func (a *answer) shown(t *testing.T) string {
	t.Helper()
	out := make(map[string]json.RawMessage)
	if a.Error != nil {
		b, err := json.Marshal([]map[string]string{{"type": "text", "text": a.Error.Message}})
		hosttest.Must(t, err)
		out["content"], out["isError"] = b, json.RawMessage("true")
	}
	for key, value := range a.Result {
		if s := string(value); s == "null" && key != "content" || key == "isError" && s == "false" || key == "content" && s == "[]" || !slices.Contains([]string{"content", "structuredContent", "isError", "_meta"}, key) {
			continue
		}
		if key != "_meta" {
			out[key] = value
			continue
		}
		var meta map[string]json.RawMessage
		hosttest.Must(t, json.Unmarshal(value, &meta))
		maps.DeleteFunc(meta, func(k string, _ json.RawMessage) bool {
			return strings.HasPrefix(k, "toolhost.dev/") || strings.HasPrefix(k, "io.modelcontextprotocol/") // about the connection
		})
		if b, err := json.Marshal(meta); err == nil && len(meta) > 0 {
			out[key] = b
		}
	}
	b, err := json.Marshal(out)
	hosttest.Must(t, err)
	return string(b)
}

// lineClient is a client of a program that shows its answers as they are. Its directory is its only root.
type lineClient struct {
	t    *testing.T
	c    *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int
	// limit is the time for an answer.
	limit time.Duration
}

func startLines(t *testing.T, c *exec.Cmd) *lineClient {
	t.Helper()
	c.Stderr = nil // servers print much there
	r := &lineClient{t: t, c: c, limit: startLimit}
	r.in, r.out = hosttest.Piped(t, c)
	t.Cleanup(r.end)
	if r.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"t","version":"1"}}`) == nil {
		t.Fatalf("%q does not answer", c.Args)
	}
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.ask("ping", "{}") // some servers first ask for the roots
	r.limit = askLimit
	return r
}

func (r *lineClient) send(line string) { _, _ = io.WriteString(r.in, line+"\n") } // an error also ends the output

func (r *lineClient) end() {
	_ = r.c.Process.Kill()
	_ = r.c.Wait()
}

// ask sends a request and returns its answer. It returns nil if the program does not answer in time.
func (r *lineClient) ask(method, params string) *answer {
	r.last++
	slow := time.AfterFunc(r.limit, func() { _ = r.c.Process.Kill() })
	defer slow.Stop()
	r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, r.last, method, params))
	for {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		switch {
		case json.Unmarshal(line, &m) != nil: // some servers print text besides messages
		case m.Method == "roots/list": // the host names the same directory
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file://%s","name":%q}]}}`, m.ID, r.c.Dir, filepath.Base(r.c.Dir)))
		case m.Method != "" && m.ID != nil:
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID))
		case m.Method == "" && string(m.ID) == fmt.Sprint(r.last):
			return answerIn(line)
		}
	}
}

func (r *lineClient) call(name, args string) *answer {
	return r.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
}

// neutral returns a text without the directory of the program and without numbers, such as times.
func (r *lineClient) neutral(text string) string {
	return digits.ReplaceAllString(strings.ReplaceAll(text, r.c.Dir, "DIR"), "0")
}

var digits = regexp.MustCompile(`[0-9]+`)

// listed is a tool as its server lists it.
type listed struct {
	Name        string
	InputSchema map[string]any
}

func (r *lineClient) tools() (all []listed) {
	r.t.Helper()
	for cursor := ""; ; {
		a := r.ask("tools/list", cmp.Or(cursor, "{}"))
		if a == nil || a.Error != nil {
			r.t.Fatalf("the server does not list its tools: %+v", a)
		}
		var page []listed
		hosttest.Must(r.t, json.Unmarshal(a.Result["tools"], &page))
		all = append(all, page...)
		if a.Result["nextCursor"] == nil {
			return all
		}
		cursor = fmt.Sprintf(`{"cursor":%s}`, a.Result["nextCursor"])
	}
}

// generatedArguments returns arguments for a schema: the required ones, with the defaults, with null where it is
// allowed, and all of them.
func generatedArguments(schema map[string]any) (out []string) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, values := range []string{"required", "default", "null", "all"} {
		args := make(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			sub, _ := properties[name].(map[string]any)
			b, _ := json.Marshal(sub)
			initial, has := sub["default"]
			switch {
			case values == "default" && has:
				args[name] = initial
			case values == "null" && strings.Contains(string(b), `"null"`) && !strings.Contains(string(b), `"properties"`):
				args[name] = nil
			case values == "all", slices.Contains(required, any(name)):
				args[name] = generated(name, sub, schema, 0)
			}
		}
		b, err := json.Marshal(args)
		if err == nil && !slices.Contains(out, string(b)) {
			out = append(out, string(b))
		}
	}
	return out
}

// generated returns a value for a schema.
func generated(name string, schema, root map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok && depth < 6 {
		target := any(root)
		for _, part := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
			if m, ok := target.(map[string]any); ok && part != "" {
				target = m[part]
			}
		}
		if m, ok := target.(map[string]any); ok {
			return generated(name, m, root, depth+1)
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if parts, ok := schema[key].([]any); ok && len(parts) > 0 && schema["type"] == nil {
			if m, ok := parts[0].(map[string]any); ok {
				return generated(name, m, root, depth+1)
			}
		}
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	if all, ok := schema["enum"].([]any); ok && len(all) > 0 {
		return all[0]
	}
	kind := schema["type"]
	if list, ok := kind.([]any); ok && len(list) > 0 {
		kind = list[0]
	}
	switch kind {
	case "integer", "number":
		if strings.Contains(strings.ToLower(name), "pid") {
			return 999999999 // no process has this number
		}
		if v, ok := schema["minimum"].(float64); ok {
			return v
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	case "array":
		items, _ := schema["items"].(map[string]any)
		if items == nil || depth > 6 {
			return []any{}
		}
		return []any{generated(name, items, root, depth+1)}
	case "object":
		out := make(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for key, sub := range properties {
			if m, ok := sub.(map[string]any); ok && (depth < 4 || slices.Contains(required, any(key))) && depth < 10 {
				out[key] = generated(key, m, root, depth+1)
			}
		}
		return out
	}
	formats := map[string]string{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "http://127.0.0.1:1/", "email": "a@example.com", "uuid": "00000000-0000-4000-8000-000000000000"}
	return cmp.Or(formats[fmt.Sprint(schema["format"])], "toolhost-test \"\u2028é")
}
