package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// metaPrefix is the prefix of toolhost's metadata keys in a result.
const metaPrefix = "toolhost.dev/"

// maxInline is the maximum size in bytes of an embedded file, because clients show embedded files to the model as
// base64. The limit does not apply to images.
const maxInline = 64 << 10

// toResult converts a result of a function for an MCP client. The text contains all information for the model. toResult
// omits the structured data of the host's own tools, because clients would show the data to the model in place of the
// text.
func toResult(res *tool.Result, f function) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: !res.Success(), Meta: mcp.Meta{}}
	meta := map[string]any{
		"call_id": res.Run.CallID, "tool": res.Run.Tool, "plugin": res.Run.Plugin, "plugin_version": res.Run.PluginVersion,
		"execution_ms": float64(res.Run.ExecutionTime.Microseconds()) / 1000, "queue_ms": float64(res.Run.QueueTime.Microseconds()) / 1000,
		"attempts": res.Run.Attempts, "cache_hit": res.Run.CacheHit,
	}
	if res.Title != "" {
		meta["title"] = res.Title
	}
	for k, v := range res.Metadata {
		if _, own := meta[k]; !own {
			meta[k] = v
		}
	}
	if theirs, ok := res.Metadata[tool.MetadataMCP].(map[string]any); ok && f.mounted {
		delete(meta, tool.MetadataMCP)
		for k, v := range theirs {
			if !strings.HasPrefix(k, metaPrefix) && !strings.HasPrefix(k, "io.modelcontextprotocol/") { // of this connection
				out.Meta[k] = v
			}
		}
	}
	out.Meta[metaPrefix+"metadata"] = meta
	text := res.Output
	if e := res.Error; e != nil {
		text = e.Message
		out.Meta[metaPrefix+"error"] = map[string]any{"kind": e.Kind, "code": e.Code, "source": e.Source}
	}
	if f.structured && res.Data != nil {
		out.StructuredContent = res.Data
	}
	if blocks := ordered(res, text); blocks != nil {
		out.Content = blocks
		return out
	}
	out.Content = []mcp.Content{}
	var rest []mcp.Content
	for i, a := range res.Attachments {
		c, note := content(a, i)
		if c != nil {
			rest = append(rest, c)
		}
		if note != "" {
			text = strings.TrimRight(text, "\n") + "\n" + note
		}
	}
	if text != "" || len(rest) == 0 && !f.mounted { // a result of a server can be empty
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	out.Content = append(out.Content, rest...)
	return out
}

// ordered returns the parts of a result in their order. It returns nil if the result does not describe its parts, or if
// they no longer match the text. What the host added at the end of the text becomes a part of its own.
func ordered(res *tool.Result, text string) []mcp.Content {
	var out []mcp.Content
	pos, texts := 0, 0
	for _, part := range res.Contents {
		var extra struct {
			Type string `json:"type"`
		}
		if part.Block != nil && json.Unmarshal(part.Block, &extra) != nil {
			return nil
		}
		own := ""
		if isText := part.Attachment == 0 && extra.Type == ""; isText || part.Text > 0 {
			if texts++; texts > 1 {
				if !strings.HasPrefix(text[pos:], "\n") {
					return nil
				}
				pos++
			}
			if part.Text < 0 || part.Text > len(text)-pos {
				return nil
			}
			own = text[pos : pos+part.Text]
			pos += part.Text
		}
		switch {
		case extra.Type != "":
			c := decodeBlock(part.Block)
			if c == nil {
				return nil
			}
			out = append(out, &exact{c, part.Block})
		case part.Attachment == 0:
			out = append(out, withMembers(&mcp.TextContent{Text: own}, part.Block))
		case part.Attachment > len(res.Attachments):
			return nil
		default:
			a := res.Attachments[part.Attachment-1]
			if strings.HasPrefix(a.MediaType, "audio/") ||
				a.Type == "file" && !strings.HasPrefix(a.MediaType, "image/") {
				out = append(out, withMembers(&mcp.AudioContent{Data: a.Content, MIMEType: a.MediaType}, part.Block))
				break
			}
			out = append(out, withMembers(&mcp.ImageContent{Data: a.Content, MIMEType: a.MediaType}, part.Block))
		}
	}
	if rest := text[pos:]; out != nil && strings.TrimSpace(rest) != "" {
		if texts > 0 && !strings.HasPrefix(rest, "\n") {
			return nil
		}
		out = append(out, &mcp.TextContent{Text: strings.TrimLeft(rest, "\n")})
	}
	return out
}

// exact is a block whose JSON has members that the SDK does not know.
type exact struct {
	mcp.Content
	raw json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (e *exact) MarshalJSON() ([]byte, error) { return e.raw, nil }

// withMembers returns a block with further members, which are a JSON object or nil.
func withMembers(c mcp.Content, members json.RawMessage) mcp.Content {
	raw, err := json.Marshal(c)
	inner := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(members), []byte("{")))
	if err != nil || len(inner) < 2 { // no member, or only the end of the object
		return c
	}
	return &exact{c, slices.Concat(bytes.TrimSuffix(raw, []byte("}")), []byte(","), inner)}
}

// decodeBlock converts a content block. It returns nil for a block that is not valid.
func decodeBlock(raw json.RawMessage) mcp.Content {
	var res mcp.CallToolResult
	list := slices.Concat([]byte(`{"content":[`), raw, []byte(`]}`))
	if json.Unmarshal(list, &res) != nil || len(res.Content) != 1 {
		return nil
	}
	return res.Content[0]
}

// content converts an attachment: an image stays an image, a small file is embedded, and a larger file becomes a link.
// The returned note contains the link as text, because some clients drop links.
func content(a tool.Attachment, i int) (mcp.Content, string) {
	if strings.HasPrefix(a.MediaType, "image/") && len(a.Content) > 0 {
		return &mcp.ImageContent{Data: a.Content, MIMEType: a.MediaType}, ""
	}
	if strings.HasPrefix(a.MediaType, "audio/") && len(a.Content) > 0 {
		return &mcp.AudioContent{Data: a.Content, MIMEType: a.MediaType}, ""
	}
	name := filepath.Base(a.Path)
	uri := (&url.URL{Scheme: "file", Path: a.Path}).String()
	if a.Path == "" {
		name = fmt.Sprintf("attachment-%d", i+1)
		uri = "toolhost:///attachments/" + name
	}
	if len(a.Content) > 0 && (len(a.Content) <= maxInline || a.Path == "") {
		r := &mcp.ResourceContents{URI: uri, MIMEType: a.MediaType}
		if isText(a) {
			r.Text = string(a.Content)
		} else {
			r.Blob = a.Content
		}
		return &mcp.EmbeddedResource{Resource: r}, ""
	}
	if a.Path == "" {
		return nil, "[An attachment has no content.]"
	}
	size := int64(len(a.Content))
	link := &mcp.ResourceLink{URI: uri, Name: name, MIMEType: a.MediaType}
	if size > 0 {
		link.Size = &size
	}
	return link, fmt.Sprintf("[Attached: %s]", a.Path)
}

func isText(a tool.Attachment) bool {
	media, _, err := mime.ParseMediaType(a.MediaType)
	return (a.MediaType == "" || err == nil && (strings.HasPrefix(media, "text/") || media == "application/json")) &&
		utf8.Valid(a.Content)
}
