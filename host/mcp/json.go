package mcp

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// onlyText gives the text of a result that is nothing else; nil: there is more.
func onlyText(res *mcp.CallToolResult) *string {
	if len(res.Content) != 1 || res.StructuredContent != nil || res.InputRequests != nil {
		return nil
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok && c.Meta == nil && c.Annotations == nil {
		return &c.Text
	}
	return nil
}

// appendResult appends a result as JSON. That of a text is written out, because the general
// way goes over the text four times.
func appendResult(out []byte, res *mcp.CallToolResult) []byte {
	text := onlyText(res)
	if text == nil {
		b, err := json.Marshal(res)
		if err != nil { // nothing in it can be the reason
			b = []byte(`{"content":[],"isError":true}`)
		}
		return append(out, b...)
	}
	out = appendValue(append(out, `{"_meta":`...), map[string]any(res.Meta))
	out = append(out, `,"content":[{"type":"text","text":`...)
	out = append(appendString(out, *text), `}]`...)
	if res.IsError {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}

// appendValue appends a value as JSON. What results mostly have is written out here; null stands
// for what JSON does not have.
func appendValue(out []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendString(out, v)
	case bool:
		return strconv.AppendBool(out, v)
	case int:
		return strconv.AppendInt(out, int64(v), 10)
	case float64:
		if a := math.Abs(v); a == 0 || a >= 1e-6 && a < 1e15 { // as numbers are written by everyone
			return strconv.AppendFloat(out, v, 'f', -1, 64)
		}
	case map[string]any:
		out = append(out, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendValue(append(appendString(out, k), ':'), v[k])
		}
		return append(out, '}')
	}
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null")
	}
	return append(out, b...)
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string.
func appendString(out []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	out = append(out, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) && plainBytes(s[i:i+8]) {
			i += 8
		}
		if i == len(s) {
			break
		}
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\t':
			out = append(out, '\\', 't')
		case '\r':
			out = append(out, '\\', 'r')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(out, s[from:]...), '"')
}

// plainBytes reports whether eight bytes can stand in a JSON string as they are. It may say
// no where they can.
func plainBytes(s string) bool {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	w := binary.LittleEndian.Uint64([]byte(s))
	quote, slash := w^(low*'"'), w^(low*'\\')
	// A byte of x below n makes the high bit of x-n, as bytes, one that x has not.
	return ((w-low*0x20)&^w|(quote-low)&^quote|(slash-low)&^slash)&high == 0
}
