package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// response is the answer to a call.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"` // textResult or *mcp.CallToolResult
}

// textResult is a result that holds one text. Its fields are encoded directly, where
// [mcp.CallToolResult] encodes the text several times.
type textResult struct {
	Meta    map[string]any `json:"_meta,omitempty"`
	Content [1]textContent `json:"content"`
	IsError bool           `json:"isError,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// onlyText returns the text of a result that holds nothing else, or nil.
func onlyText(res *mcp.CallToolResult) *string {
	if len(res.Content) != 1 || res.StructuredContent != nil || res.InputRequests != nil {
		return nil
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok && c.Meta == nil && c.Annotations == nil {
		return &c.Text
	}
	return nil
}

// buffers holds the buffers of responses. A buffer that grew beyond largestKept is not reused.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const largestKept = 256 << 10 // bytes

// writeResponse writes the line that answers the request with the id to out, by one call of Write.
func (l *stream) writeResponse(id json.RawMessage, res *mcp.CallToolResult) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is put in
	buf.Reset()
	encodeResponse(buf, id, res)
	_, _ = l.Write(buf.Bytes()) // a client that is gone is noticed by its input
	if buf.Cap() <= largestKept {
		buffers.Put(buf)
	}
}

// encodeResponse appends the line of a response to buf. A value of the metadata that JSON cannot
// express becomes null.
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
			_ = encode(json.RawMessage(`{"content":[],"isError":true}`)) // no result is left that could fail
		}
		return
	}
	out := textResult{Meta: res.Meta, Content: [1]textContent{{Type: "text", Text: *text}}, IsError: res.IsError}
	if encode(out) != nil {
		out.Meta = encodable(out.Meta)
		_ = encode(out) // cannot fail now
	}
}

// encodable returns a copy of m with null in place of the values that JSON cannot express.
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
