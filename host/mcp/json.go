package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// response is the JSON-RPC answer to a call.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"` // a textResult or a *mcp.CallToolResult
}

// textResult is a result that contains a single text. stream encodes textResult itself, because [mcp.CallToolResult]
// encodes the text several times.
type textResult struct {
	Meta    map[string]any `json:"_meta,omitempty"`
	Content [1]textContent `json:"content"`
	IsError bool           `json:"isError,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// onlyText returns the text of a result that contains only one text. It returns nil for other results.
func onlyText(res *mcp.CallToolResult) *string {
	if len(res.Content) != 1 || res.StructuredContent != nil || res.InputRequests != nil {
		return nil
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok && c.Meta == nil && c.Annotations == nil {
		return &c.Text
	}
	return nil
}

// buffers is a pool of buffers for responses. Buffers larger than largestKept are not reused.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const largestKept = 256 << 10 // in bytes

// writeResponse writes the response to a request as one line. It calls l.Write once.
func (l *stream) writeResponse(id json.RawMessage, res *mcp.CallToolResult) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is put in
	buf.Reset()
	encodeResponse(buf, id, res)
	_, _ = l.Write(buf.Bytes()) // ignore errors, because the client's input also ends when it disconnects
	if buf.Cap() <= largestKept {
		buffers.Put(buf)
	}
}

// encodeResponse appends a response line to buf. Metadata values that JSON cannot represent become null.
func encodeResponse(buf *bytes.Buffer, id json.RawMessage, res *mcp.CallToolResult) {
	encode := func(result any) error {
		start := buf.Len()
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		err := enc.Encode(response{JSONRPC: "2.0", ID: id, Result: result})
		if err != nil {
			buf.Truncate(start)
		}
		return err
	}
	text := onlyText(res)
	if text == nil {
		if encode(res) != nil {
			_ = encode(json.RawMessage(`{"content":[],"isError":true}`)) // the error is ignored, because this value can always be encoded
		}
		return
	}
	out := textResult{Meta: res.Meta, Content: [1]textContent{{Type: "text", Text: *text}}, IsError: res.IsError}
	if encode(out) != nil {
		out.Meta = encodable(out.Meta)
		_ = encode(out) // the error is ignored, because Meta can now be encoded
	}
}

// encodable returns a copy of m in which values that JSON cannot represent are null.
func encodable(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range m {
		if inner, ok := v.(map[string]any); ok {
			m[k] = encodable(inner)
		} else if _, err := json.Marshal(v); err != nil {
			m[k] = nil
		}
	}
	return m
}
