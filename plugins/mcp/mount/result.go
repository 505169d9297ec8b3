package mount

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
)

// result converts the server's result of a call to a result for the host. The text and the attachments of the result
// are for callers that do not understand blocks. The contents of the result contain the blocks in their original order.
func result(r *mcp.CallToolResult) (*sdk.Result, error) {
	b := new(blocks)
	for _, c := range r.Content {
		b.add(c)
	}
	out := &sdk.Result{Attachments: b.attachments, Contents: b.contents}
	if len(r.Meta) > 0 {
		out.Metadata = map[string]any{tool.MetadataMCP: r.Meta}
	}
	if r.StructuredContent != nil {
		data, err := structured(r.StructuredContent)
		if err != nil {
			return nil, sdk.Errorf(tool.ExecutionFailed, "The MCP server's structured result cannot be used: %w", err)
		}
		out.Data = data
		if len(r.Content) == 0 {
			b.texts = append(b.texts, string(data))
		}
	}
	out.Output = strings.Join(b.texts, "\n")
	if !r.IsError {
		return out, nil
	}
	why := out.Output
	if strings.TrimSpace(why) == "" {
		why = "The MCP server's tool failed without a message."
		out.Contents = nil
	}
	return out, sdk.Errorf(tool.ExecutionFailed, "%s", why)
}

// structured returns structured data as JSON.
func structured(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(v)
}

// unescaped returns valid JSON with only the escapes that an encoder needs, because an escape such as \u0061 could hide
// a secret from the host, which removes secrets. All else stays as it is.
func unescaped(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`\u`)) && !bytes.Contains(raw, []byte(`\/`)) && utf8.Valid(raw) {
		return raw
	}
	out := make(json.RawMessage, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i + 1
		if raw[i] != '"' {
			out, i = append(out, raw[i]), end
			continue
		}
		for ; raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		out, i = append(out, encoded(rawjson.Text(raw[i:end+1]))...), end+1
	}
	return out
}

// encoded returns a text as a JSON string.
func encoded(text string) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text can always be encoded
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// blocks collects the parts of a result.
type blocks struct {
	texts       []string
	attachments []sdk.Attachment
	contents    []sdk.Content
}

func (b *blocks) add(c mcp.Content) {
	part := sdk.Content{}
	var raw json.RawMessage
	if r, ok := c.(*received); ok {
		c, raw = r.Content, r.raw
	}
	switch c := c.(type) {
	case *note:
		part.Text = b.text(c.Text)
	case *mcp.TextContent:
		part.Block = extras(raw)
		part.Text = b.text(c.Text)
		if c.Text == "" && part.Block == nil {
			part.Block = json.RawMessage(`{}`) // a part without text needs a block
		}
	case *mcp.ImageContent:
		part.Block = extras(raw)
		part.Attachment = b.attach(sdk.Attachment{Type: "image", MediaType: c.MIMEType, Content: c.Data})
	case *mcp.AudioContent:
		part.Block = extras(raw)
		part.Attachment = b.attach(sdk.Attachment{Type: "file", MediaType: c.MIMEType, Content: c.Data})
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return
		}
		content := c.Resource.Blob
		if content == nil {
			content = []byte(c.Resource.Text)
		}
		part.Block = unescaped(raw)
		part.Attachment = b.attach(sdk.Attachment{
			Type: "file", Path: c.Resource.URI, MediaType: c.Resource.MIMEType, Content: content,
		})
	case *mcp.ResourceLink:
		part.Block = unescaped(raw)
		part.Text = b.text(link(c))
	default:
		if part.Block = unescaped(raw); part.Block == nil {
			return
		}
	}
	b.contents = append(b.contents, part)
}

func (b *blocks) text(s string) int {
	b.texts = append(b.texts, s)
	return len(s)
}

func (b *blocks) attach(a sdk.Attachment) int {
	b.attachments = append(b.attachments, a)
	return len(b.attachments)
}

// extras returns the members of a text, an image or audio that no other field of the result has. If the block has none,
// it returns nil.
func extras(raw json.RawMessage) json.RawMessage {
	members, err := parseObject(raw)
	for _, key := range []string{"type", "text", "data", "mimeType"} {
		members.remove(key)
	}
	if err != nil || len(members) == 0 {
		return nil
	}
	return unescaped(members.json())
}

// link returns the text of a link to a resource.
func link(l *mcp.ResourceLink) string {
	text := "Resource " + l.URI
	for _, s := range []string{l.Title, l.Name} {
		if s != "" {
			text += " (" + s + ")"
			break
		}
	}
	if l.Description != "" {
		text += ": " + l.Description
	}
	return text
}
