package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/rawjson"

	"toolhost.dev/host/mcp/internal/message"
)

// response is the JSON-RPC answer to a call.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"` // a *mcp.CallToolResult or its JSON
}

// onlyText returns the text of a result that contains only one text, and perhaps structured data in JSON. It returns
// nil for other results.
func onlyText(res *mcp.CallToolResult) *string {
	if len(res.Content) != 1 || res.InputRequests != nil {
		return nil
	}
	if data, ok := res.StructuredContent.(json.RawMessage); res.StructuredContent != nil &&
		(!ok || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0) {
		return nil // a response is one line
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok && c.Meta == nil && c.Annotations == nil {
		return &c.Text
	}
	return nil
}

// buffers is a pool of buffers for responses. Buffers larger than largestKept are not reused.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const largestKept = 256 << 10 // in bytes

// writeResponse sends the response to a request as one line, or as a part of its batch.
func (l *stream) writeResponse(id json.RawMessage, res *mcp.CallToolResult, batch *message.Batch) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is put in
	buf.Reset()
	encodeResponse(buf, id, res)
	l.send(buf.Bytes(), batch)
	if buf.Cap() <= largestKept {
		buffers.Put(buf)
	}
}

// writeError answers a request with an error of the protocol. A nil id is null.
func (l *stream) writeError(id json.RawMessage, e *jsonrpc.Error, batch *message.Batch) {
	l.send(errorLine(id, e), batch)
}

// errorLine returns the line of an error of the protocol.
func errorLine(id json.RawMessage, e *jsonrpc.Error) []byte {
	line, _ := json.Marshal(struct { // it can always be encoded
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	return append(line, '\n')
}

// encodeResponse appends a response line to buf. Metadata values that JSON cannot represent become null.
func encodeResponse(buf *bytes.Buffer, id json.RawMessage, res *mcp.CallToolResult) {
	if text := onlyText(res); text != nil {
		encodeText(buf, id, res, *text)
		return
	}
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
	if encode(res) != nil {
		_ = encode(json.RawMessage(`{"content":[],"isError":true}`)) // the error is ignored, because this value can always be encoded
	}
}

// encodeText appends the response line of a result that contains a single text. encodeText does not use the encoder of
// [mcp.CallToolResult], which encodes the text several times.
func encodeText(buf *bytes.Buffer, id json.RawMessage, res *mcp.CallToolResult, text string) {
	buf.Grow(len(text) + len(text)/16 + 1024) // usually enough for the escapes and the metadata
	b := append(buf.AvailableBuffer(), `{"jsonrpc":"2.0","id":`...)
	b = append(append(b, id...), `,"result":{`...)
	if len(res.Meta) > 0 {
		b = append(appendValue(append(b, `"_meta":`...), map[string]any(res.Meta)), ',')
	}
	b = append(rawjson.AppendString(append(b, `"content":[{"type":"text","text":`...), text), `}]`...)
	if data, ok := res.StructuredContent.(json.RawMessage); ok { // the host has checked that it is JSON
		b = append(append(b, `,"structuredContent":`...), data...)
	}
	if res.IsError {
		b = append(b, `,"isError":true`...)
	}
	buf.Write(append(b, "}}\n"...))
}

// appendValue appends a value as JSON. A value that JSON cannot represent becomes null.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return rawjson.AppendString(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case bool:
		return strconv.AppendBool(b, v)
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(append(rawjson.AppendString(b, k), ':'), v[k])
		}
		return append(b, '}')
	}
	var other bytes.Buffer
	enc := json.NewEncoder(&other)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return append(b, "null"...)
	}
	return append(b, bytes.TrimSuffix(other.Bytes(), []byte{'\n'})...)
}
