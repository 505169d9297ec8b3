package mcp

import (
	"fmt"
	"mime"
	"net/url"
	"path/filepath"
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

// toResult converts a result for an MCP client. The text contains all information for the model. toResult omits
// structured data, because clients would show the data to the model in place of the text.
func toResult(res *tool.Result) *mcp.CallToolResult {
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
	out.Meta[metaPrefix+"metadata"] = meta
	text := res.Output
	if e := res.Error; e != nil {
		text = e.Message
		out.Meta[metaPrefix+"error"] = map[string]any{"kind": e.Kind, "code": e.Code, "source": e.Source}
	}
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
	if text != "" || len(rest) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	out.Content = append(out.Content, rest...)
	return out
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
	return (a.MediaType == "" || err == nil && (strings.HasPrefix(media, "text/") || media == "application/json")) && utf8.Valid(a.Content)
}
