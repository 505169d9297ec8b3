package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// The following constants limit the server's list of tools.
const (
	maxPages  = 20
	maxTools  = 500
	maxSchema = 256 << 10 // maximum size in bytes

	maxNameShown = 64
)

// list requests the server's tools page by page. If a limit is reached, list returns the tools that it has received
// so far.
func (m *mount) list(ctx context.Context) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	cursor, seen := "", make(map[string]bool)
	for range maxPages {
		page, err := m.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if len(all) > maxTools {
			logf("warn", "the server has more than %d tools; only the first are used", maxTools)
			return all[:maxTools], nil
		}
		cursor = page.NextCursor
		if cursor == "" {
			return all, nil
		}
		if seen[cursor] {
			logf("warn", "the server's list of tools repeats a page")
			return all, nil
		}
		seen[cursor] = true
	}
	logf("warn", "the server's list of tools has more than %d pages; the further pages are not used", maxPages)
	return all, nil
}

// convert converts the server's tools to tools of the plugin.
func (m *mount) convert(listed []*mcp.Tool) []sdk.Tool {
	out := make([]sdk.Tool, 0, len(listed))
	taken := make(map[string]bool)
	for _, t := range listed {
		if t == nil || t.Name == "" {
			logf("warn", "the server lists a tool without a name; the tool is not used")
			continue
		}
		def, err := m.definition(t)
		if err != nil {
			logf("warn", "the server's tool %q is not used: %v", clean(t.Name, maxNameShown), err)
			continue
		}
		if taken[def.Name] {
			def.Name = tool.DistinctName(def.Name, t.Name)
		}
		if taken[def.Name] {
			logf("warn", "the server's tool %q is listed twice; only the first is used", clean(t.Name, maxNameShown))
			continue
		}
		taken[def.Name] = true
		name := t.Name
		out = append(out, sdk.NewTool(def, func(ctx context.Context, call *sdk.Call, args json.RawMessage) (*sdk.Result, error) {
			return m.call(ctx, call, name, args)
		}))
	}
	return out
}

// definition converts the server's description of a tool to a definition. It does not check the schemas. The host
// refuses invalid schemas and reports them to the operator.
func (m *mount) definition(t *mcp.Tool) (sdk.Definition, error) {
	def := sdk.Definition{Name: tool.NameOf(t.Name), Category: tool.CategoryMCP, DefaultTimeout: -1}
	for _, text := range []string{t.Description, t.Title, "The tool " + t.Name + " of an MCP server that sends no description."} {
		if def.Description = strings.TrimSpace(clean(text, maxDescription)); def.Description != "" {
			break
		}
	}
	// The annotations come from the untrusted server. Therefore they are only used to permit a retry.
	if a := t.Annotations; a != nil {
		def.Traits = sdk.Traits{ReadOnly: a.ReadOnlyHint, Idempotent: a.IdempotentHint || a.ReadOnlyHint}
	}
	var err error
	if def.Input, err = m.schemas.of(t.Name, t.InputSchema); err != nil {
		return def, err
	}
	if t.OutputSchema != nil {
		if def.Output, err = cleanSchema(t.OutputSchema); err != nil {
			def.Output = nil // drop the output schema, because the tool also works without it
		}
	}
	return def, nil
}

// schemas contains the input schemas in their received form. The order of properties determines the positional
// arguments, but the MCP SDK does not preserve the order.
type schemas struct {
	mu  sync.Mutex
	raw map[string]json.RawMessage
}

// keep stores the schemas of one page of the server's tools.
func (s *schemas) keep(result json.RawMessage) {
	var page struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &page) != nil {
		return // ignore the error, because the MCP SDK reports it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw == nil || len(s.raw) > maxPages*maxTools {
		s.raw = make(map[string]json.RawMessage)
	}
	for _, t := range page.Tools {
		s.raw[t.Name] = t.InputSchema
	}
}

// This method returns the input schema of a tool in the received form. If the received form is unknown, it returns the
// decoded form.
func (s *schemas) of(name string, decoded any) (json.RawMessage, error) {
	s.mu.Lock()
	raw := s.raw[name]
	s.mu.Unlock()
	if len(raw) > 0 {
		return cleanSchema(raw)
	}
	return cleanSchema(decoded)
}

// cleanSchema cleans the texts of a schema and keeps the order of its properties.
func cleanSchema(schema any) (json.RawMessage, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("the schema has %d bytes, and the limit is %d", len(raw), maxSchema)
	}
	var out bytes.Buffer
	err = cleanInto(&out, raw, false)
	return out.Bytes(), err
}

// cleanInto cleans a schema and appends the result to out. If the last argument is true, raw is an object that maps
// property names to schemas.
func cleanInto(out *bytes.Buffer, raw json.RawMessage, names bool) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	switch raw[0] {
	case '{':
		return cleanObject(out, dec, names)
	case '[':
		_, _ = dec.Token()
		out.WriteByte('[')
		for first := true; dec.More(); first = false {
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				return err
			}
			if !first {
				out.WriteByte(',')
			}
			if err := cleanInto(out, v, false); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	out.Write(raw)
	return nil
}

func cleanObject(out *bytes.Buffer, dec *json.Decoder, names bool) error {
	_, _ = dec.Token()
	out.WriteByte('{')
	for first := true; dec.More(); first = false {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		if !first {
			out.WriteByte(',')
		}
		k, _ := json.Marshal(key)
		out.Write(k)
		out.WriteByte(':')
		within := false
		if !names {
			switch key {
			case "description", "title", "$comment":
				var text string
				if v[0] == '"' && json.Unmarshal(v, &text) == nil {
					v, _ = json.Marshal(clean(text, maxDescription))
				}
			case "default", "const", "enum", "examples": // the values of these keywords must stay unchanged
				out.Write(v)
				continue
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				within = true
			}
		}
		if err := cleanInto(out, v, within); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}
