package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/mcp/internal/outbox"
)

// answered encodes a result. It checks that the response is one line of valid JSON and returns the decoded line.
func answered(t testing.TB, id string, res *mcp.CallToolResult) map[string]any {
	t.Helper()
	var buf bytes.Buffer
	encodeResponse(&buf, json.RawMessage(id), res)
	line, ended := strings.CutSuffix(buf.String(), "\n")
	var out map[string]any
	if err := json.Unmarshal([]byte(line), &out); err != nil || !ended || strings.ContainsAny(line, "\n\r") {
		t.Fatalf("%q: %v", line, err)
	}
	if out["jsonrpc"] != "2.0" || len(out) != 3 {
		t.Errorf("%s", line)
	}
	return out
}

// TestResponse compares a response with the SDK's encoding of the same result.
func TestResponse(t *testing.T) {
	text := &mcp.TextContent{Text: "a \"text\" of <b>&</b>\n\u2028\x00"}
	for _, res := range []*mcp.CallToolResult{
		{Content: []mcp.Content{text}, Meta: mcp.Meta{"m": map[string]any{"n": 1, "ms": 0.125, "title": "<t>"}}},
		{Content: []mcp.Content{text}, IsError: true, Meta: mcp.Meta{}},
		{Content: []mcp.Content{&mcp.TextContent{}}},
		{Content: []mcp.Content{text, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}},
		{Content: []mcp.Content{text}, StructuredContent: map[string]any{"x": 1.0}},
		{Content: []mcp.Content{text}, StructuredContent: json.RawMessage(`{"x": "<a> \u2028 \n"}`), IsError: true},
		{Content: []mcp.Content{text}, StructuredContent: json.RawMessage("{\"x\":\n[1]}")},
		{Content: []mcp.Content{&mcp.TextContent{Text: "t", Annotations: &mcp.Annotations{Priority: 1}}}},
	} {
		want, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var b map[string]any
		if err := json.Unmarshal(want, &b); err != nil {
			t.Fatal(err)
		}
		out := answered(t, `"i"`, res)
		a, _ := out["result"].(map[string]any)
		if len(res.Meta) == 0 { // an empty _meta is equal to a missing one
			delete(b, "_meta")
		}
		if !reflect.DeepEqual(a, b) || out["id"] != "i" {
			t.Errorf("%v, want %s", out, want)
		}
	}
}

// TestResponseText checks that every text arrives unchanged, without HTML escapes.
func TestResponseText(t *testing.T) {
	for _, s := range []string{"", "é", "日本語のテキスト\n", "\u2028 and \u2029", "\x00\x1f\x7f", "\"\\\"\\\"\\\"\\", strings.Repeat("line\r\n", 100_000)} {
		arrives(t, s)
	}
	var buf bytes.Buffer
	encodeResponse(&buf, json.RawMessage("1"), &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "<a> & b"}}, Meta: mcp.Meta{"t": "<c>"}})
	if !strings.Contains(buf.String(), `"<a> & b"`) || !strings.Contains(buf.String(), `"<c>"`) {
		t.Errorf("%s", buf.Bytes())
	}
}

func FuzzResponse(f *testing.F) {
	f.Add("text\n\"quoted\"")
	f.Fuzz(func(t *testing.T, s string) { arrives(t, s) })
}

func arrives(t *testing.T, s string) {
	t.Helper()
	result, _ := answered(t, "-7", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}})["result"].(map[string]any)
	content, _ := result["content"].([]any)
	var want strings.Builder // each invalid UTF-8 byte is replaced
	for _, r := range s {
		want.WriteRune(r)
	}
	if len(content) != 1 || !reflect.DeepEqual(content[0], map[string]any{"type": "text", "text": want.String()}) {
		t.Errorf("%q became %v", s, content)
	}
}

// TestResponseUnencodable checks that the server sends a result even if JSON cannot represent some of its values.
func TestResponseUnencodable(t *testing.T) {
	meta := mcp.Meta{"m": map[string]any{"nan": math.NaN(), "kept": "x"}, "chan": make(chan int)}
	out := answered(t, "1", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "text"}}, Meta: meta})
	want := map[string]any{
		"_meta":   map[string]any{"m": map[string]any{"nan": nil, "kept": "x"}, "chan": nil},
		"content": []any{map[string]any{"type": "text", "text": "text"}},
	}
	if !reflect.DeepEqual(out["result"], want) {
		t.Errorf("%v", out)
	}
	if m, _ := meta["m"].(map[string]any); m["nan"] == nil {
		t.Error("the result itself was changed")
	}
	out = answered(t, "1", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "text"}, &mcp.TextContent{}}, Meta: meta})
	if r, _ := out["result"].(map[string]any); r["isError"] != true {
		t.Errorf("%v", out)
	}
}

func BenchmarkResponse(b *testing.B) {
	res := &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\n", 165)}},
		Meta:    mcp.Meta{metaPrefix + "metadata": map[string]any{"call_id": "c", "tool": "read", "execution_ms": 0.125, "attempts": 1, "cache_hit": false}},
	}
	l := &stream{box: outbox.New(io.Discard)}
	b.ReportAllocs()
	for b.Loop() {
		l.writeResponse(json.RawMessage("1"), res, nil)
	}
}
