package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	maxTitle     = 256     // in bytes
	maxIcons     = 8 << 10 // in bytes
)

// list requests the server's tools page by page. If a limit is reached, list returns the tools that it has received
// so far.
func (c *conn) list(ctx context.Context) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	cursor, seen := "", make(map[string]bool)
	for range maxPages {
		page, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
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
	taken, names := make(map[string]bool), make(map[string]bool)
	var repaired []string
	for _, t := range listed {
		if t == nil || t.Name == "" {
			logf("warn", "the server lists a tool without a name; the tool is not used")
			continue
		}
		if names[t.Name] { // a page can repeat a tool of an earlier page
			logf("warn", "the server's tool %q is listed twice; only the first is used", clean(t.Name, maxNameShown))
			continue
		}
		names[t.Name] = true
		def, dropped, err := m.definition(t)
		if len(dropped) > 0 {
			repaired = append(repaired, clean(t.Name+" ("+strings.Join(dropped, ", ")+")", maxNameShown*2))
		}
		if err != nil {
			logf("warn", "the server's tool %q is not used: %v", clean(t.Name, maxNameShown), err)
			continue
		}
		if taken[def.Name] {
			def.Name = tool.DistinctName(def.Name, t.Name)
		}
		if taken[def.Name] {
			logf("warn", "the server's tool %q has the same short name as another one and is not used", clean(t.Name, maxNameShown))
			continue
		}
		taken[def.Name] = true
		name := t.Name
		out = append(out,
			sdk.NewTool(def, func(ctx context.Context, call *sdk.Call, args json.RawMessage) (*sdk.Result, error) {
				return m.call(ctx, call, name, args)
			}))
	}
	if len(repaired) > 0 {
		logf("info", "the schemas of %d tools of the server are not valid; these keywords are not used: %s", len(repaired), clean(strings.Join(repaired, "; "), maxMessage))
	}
	return out
}

// definition converts the server's description of a tool to a definition. It also returns the keywords of the input
// schema that it left out because they are invalid. If the schema still is invalid, the host refuses it and reports it
// to the operator.
func (m *mount) definition(t *mcp.Tool) (def sdk.Definition, dropped []string, err error) {
	// A client of MCP can send several requests at once, so a server must expect concurrent calls.
	def = sdk.Definition{Name: tool.NameOf(t.Name), Category: tool.CategoryMCP, DefaultTimeout: -1,
		Traits: sdk.Traits{ConcurrencySafe: true}}
	if def.Name != t.Name {
		def.OriginalName = clean(t.Name, maxNameShown)
	}
	for _, text := range []string{t.Description, t.Title, "The tool " + t.Name + " of an MCP server that sends no description."} {
		if def.Description = strings.TrimSpace(clean(text, maxDescription)); def.Description != "" {
			break
		}
	}
	// The annotations come from the untrusted server. Therefore they are only used to permit a retry.
	if a := t.Annotations; a != nil {
		def.Traits.ReadOnly, def.Traits.Idempotent = a.ReadOnlyHint, a.IdempotentHint || a.ReadOnlyHint
	}
	if def.Input, err = m.shared.schemas.schemaOf(t.Name, t.InputSchema); err != nil {
		return def, nil, err
	}
	def.Input, dropped = repair(def.Input)
	def.Title = strings.TrimSpace(clean(t.Title, maxTitle))
	if def.Title == "" && t.Annotations != nil {
		def.Title = strings.TrimSpace(clean(t.Annotations.Title, maxTitle))
	}
	def.Icons = icons(t.Icons)
	if t.OutputSchema != nil {
		if def.Output, err = cleanSchema(t.OutputSchema); err != nil {
			def.Output = nil // drop the output schema, because the tool also works without it
		} else if _, err := tool.ParseSchema(def.Output); err != nil {
			def.Output = nil // a client that validates results would refuse all of them
		}
	}
	return def, dropped, nil
}

// icons returns the icons of a tool as JSON. It omits icons whose source is not a web address or an image, and large
// lists.
func icons(list []mcp.Icon) json.RawMessage {
	list = usableIcons(list)
	raw, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return nil
	}
	return raw
}

// usableIcons returns the icons that a client can load without contacting the user's network. It returns nil if they
// are too large.
func usableIcons(list []mcp.Icon) []mcp.Icon {
	list = slices.DeleteFunc(slices.Clone(list), func(i mcp.Icon) bool {
		return !strings.HasPrefix(i.Source, "https://") && !strings.HasPrefix(i.Source, "data:image/")
	})
	if raw, err := json.Marshal(list); err != nil || len(list) == 0 || len(raw) > maxIcons {
		return nil
	}
	return list
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

// schemaOf returns the input schema of a tool in the received form. If the received form is unknown, it returns the
// decoded form.
func (s *schemas) schemaOf(name string, decoded any) (json.RawMessage, error) {
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

// cleanInto cleans a schema and appends the result to out. If the argument "names" is true, raw is an object that maps
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
