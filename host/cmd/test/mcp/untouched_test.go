package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestStructuredDataPassesThrough checks that a client gets the structured data of a mounted server, although the
// definition of the tool has no schema for it.
func TestStructuredDataPassesThrough(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	b, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, append(b, fmt.Sprintf("field \"plain\" {\n  mcp {\n    command = [%q, \"plain\"]\n  }\n}\n", filepath.Join(hosttest.Bin, "testserver"))...), 0o600))
	for _, era := range hosttest.Eras {
		s := hosttest.Connect(t, era, &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, nil, nil)
		res := hosttest.CallTool(t, s, "plain_structured", map[string]any{})
		if got, err := json.Marshal(res.StructuredContent); err != nil || string(got) != `{"degrees":21}` {
			t.Errorf("revision %s: %s, %v", era, got, err)
		}
	}
}

// TestOddResults calls tools with odd results of mounted servers: over standard input and output and over HTTP, with
// JSON and with event streams, of both revisions of the protocol. Everything but a block that cannot be decoded arrives
// as it was sent.
func TestOddResults(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file, program := filepath.Join(dir, "toolhost.hcl"), filepath.Join(hosttest.Bin, "testserver")
	hosttest.Must(t, os.Remove(file))
	server := exec.Command(program, "oddhttp", file)
	server.Stderr = t.Output()
	hosttest.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	hosttest.Wait(t, "the server has written its configuration", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	b, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, fmt.Appendf(b, "field \"odd\" {\n  mcp { command = [%q, \"odd\"] }\n}\nfield \"newodd\" {\n  mcp { command = [%q, \"newodd\"] }\n}\n", program, program), 0o600))
	s := hosttest.LineSession(t, dir)
	id := 0
	for _, field := range []string{"odd", "newodd", "json", "events", "newjson", "newevents"} {
		for kind, want := range map[string]string{
			"hologram":  `"content":[{"type":"text","text":"before"},NOTE,{"type":"text","text":"after"}],"structuredContent":{"id":12345678901234567891}`,
			"image":     `"content":[{"type":"text","text":"before"},NOTE,{"type":"text","text":"after"}]`,
			"text":      `"content":[NOTE,{"type":"text","text":"after"}],"isError":true`,
			"data":      `"content":[{"type":"text","text":"t"}],"structuredContent":{"z":12345678901234567891,"a":[1.0,1e2,null,{}],"t":"<&>éa/\"\\"}`,
			"list":      `"content":[{"type":"text","text":"t"}],"structuredContent":[1,{"id":9007199254740993}]`,
			"named":     `"content":[{"type":"text","text":"ta","name":"STDOUT","n":12345678901234567891},{"type":"image","data":"AAEC","mimeType":"image/png","x":{"y":"a"}},{"type":"resource_link","uri":"file:///a","name":"a","size":12345678901234567,"x":1}]`,
			"empty":     `"content":[]`,
			"annotated": `"content":[{"type":"text","text":"t","annotations":{"audience":["user"],"priority":0.5},"_meta":{"k":1}},{"type":"audio","data":"AAEC","mimeType":"application/ogg"}],"structuredContent":{"id":9007199254740993},"_meta":{"example.com/a":{"b":[1,"x"]}}`,
		} {
			id++
			s.Tell(fmt.Sprint(id), field+"_odd", map[string]any{"kind": kind})
			line, err := s.Out.ReadBytes('\n')
			hosttest.Must(t, err)
			if got := withoutOwn(t, line); !sameJSON(t, got, "{"+strings.Replace(want, "NOTE", `{"type":"text","text":"NOTE"}`, 1)+"}") {
				t.Errorf("%s %s: %s\nwant %s", field, kind, got, want)
			}
		}
	}
}

// withoutOwn returns the result in a message without what toolhost added. A note about a block that cannot be decoded
// is NOTE.
func withoutOwn(t *testing.T, line []byte) string {
	t.Helper()
	var m struct{ Result map[string]json.RawMessage }
	hosttest.Must(t, json.Unmarshal(line, &m))
	var meta map[string]json.RawMessage
	hosttest.Must(t, json.Unmarshal(m.Result["_meta"], &meta))
	for key := range meta {
		if strings.HasPrefix(key, "toolhost.dev/") {
			delete(meta, key)
		}
	}
	delete(m.Result, "_meta")
	var err error
	if len(meta) > 0 {
		m.Result["_meta"], err = json.Marshal(meta)
		hosttest.Must(t, err)
	}
	m.Result["content"] = regexp.MustCompile(`\[A part of the result cannot be read: [^]]*\]`).ReplaceAll(m.Result["content"], []byte("NOTE"))
	b, err := json.Marshal(m.Result)
	hosttest.Must(t, err)
	return string(b)
}

// TestArgumentsPassThrough compares the arguments that a server gets from a client with those that it gets through the
// host: 200 tools with defaults, references and nested objects, and four calls of each.
func TestArgumentsPassThrough(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	server := filepath.Join(hosttest.Bin, "testserver")
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, "field \"mirror\" {\n  mcp {\n    command = [%q, \"mirror\"]\n  }\n}\n", server), 0o600))
	direct := hosttest.Connect(t, hosttest.Eras[0], &mcp.CommandTransport{Command: exec.Command(server, "mirror")}, nil, nil)
	through := hosttest.Connect(t, hosttest.Eras[0], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, nil, nil)
	list, err := direct.ListTools(t.Context(), nil)
	hosttest.Must(t, err)
	calls := 0
	for _, def := range list.Tools {
		for _, args := range argumentsFor(t, def) {
			raw := json.RawMessage(args)
			want := hosttest.CallTool(t, direct, def.Name, raw)
			got := hosttest.CallTool(t, through, "mirror_"+def.Name, raw)
			if calls++; got.IsError || !sameJSON(t, hosttest.Text(t, got), hosttest.Text(t, want)) {
				t.Errorf("%s %s: the server got %s, and %s directly", def.Name, args, hosttest.Text(t, got), hosttest.Text(t, want))
			}
		}
	}
	if calls < 600 {
		t.Errorf("only %d calls", calls)
	}
}

// argumentsFor returns valid arguments for a tool: none, the defaults, null where it is allowed, and nested values.
func argumentsFor(t *testing.T, def *mcp.Tool) []string {
	t.Helper()
	schema, ok := def.InputSchema.(map[string]any)
	if !ok {
		t.Fatalf("the schema of %s is a %T", def.Name, def.InputSchema)
	}
	properties, _ := schema["properties"].(map[string]any)
	out := []string{`{}`}
	for _, values := range []string{"default", "null", "nested"} {
		args := make(map[string]json.RawMessage)
		for name, sub := range properties {
			b, err := json.Marshal(sub)
			hosttest.Must(t, err)
			s := string(b)
			m, _ := sub.(map[string]any)
			value, has := m["default"]
			switch {
			case values == "default" && has:
				args[name], err = json.Marshal(value)
				hosttest.Must(t, err)
			case values == "null" && strings.Contains(s, `"null"`):
				args[name] = json.RawMessage(`null`)
			case values == "nested" && strings.Contains(s, "tree"):
				args[name] = json.RawMessage(`{"children":[{"name":"1"},{"children":[{"children":[]}]}]}`)
			case values == "nested" && m["type"] == "array" && strings.Contains(s, "$defs/item"):
				args[name] = json.RawMessage(`[{"tag":"x"},{"id":9007199254740993},{"tag":null}]`)
			case values == "nested" && strings.Contains(s, "$defs/item"):
				args[name] = json.RawMessage(`{"more":{"z":1.0,"a":1e2}}`)
			case values == "nested" && strings.Contains(s, "oneOf"):
				args[name] = json.RawMessage(`{"k":1e1}`)
			case values == "nested" && strings.Contains(s, `"z"`):
				args[name] = json.RawMessage(`{"a":"<&>\u2028"}`)
			case values == "nested" && strings.Contains(s, "count"):
				args[name] = json.RawMessage(`12345678901234567890`)
			}
		}
		b, err := json.Marshal(args)
		hosttest.Must(t, err)
		out = append(out, string(b))
	}
	return out
}

// sameJSON reports whether two texts are the same JSON. Numbers are the same if they are written in the same way.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{a, b} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
