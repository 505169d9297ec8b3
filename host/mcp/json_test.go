package mcp

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func there(t *testing.T, s string) {
	t.Helper()
	var back string
	b := appendString(nil, s)
	if err := json.Unmarshal(b, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
		t.Errorf("%q became %s: %v", s, b, err)
	}
}

// TestStrings has each byte at each place of a text.
func TestStrings(t *testing.T) {
	for size := range 20 {
		plain := bytes.Repeat([]byte("x"), size)
		there(t, string(plain))
		for at := range size {
			for c := range 256 {
				b := bytes.Clone(plain)
				b[at] = byte(c)
				there(t, string(b))
			}
		}
	}
	for _, s := range []string{"é", "日本語のテキスト\n", "\u2028 and \u2029", strings.Repeat("line\n", 1000), "\xff\xfe", "\"\\\"\\\"\\\"\\"} {
		there(t, s)
	}
}

func FuzzString(f *testing.F) {
	f.Add("text\n\"quoted\"")
	f.Fuzz(there)
}

func TestValues(t *testing.T) {
	type kind string
	for _, v := range []any{
		nil, true, false, 0, -7, math.MaxInt, 0.0, 1.5, -0.25, 1e-7, 123456.789, 1e15, 1e300, "x", kind("k"), []string{"a"}, int64(3), json.Number("12"),
		map[string]any{"b": 1, "a": map[string]any{"z": "é\n", "\"": nil}, "": []any{1, "x"}}, map[string]any{}, map[string]any(nil),
	} {
		got := appendValue(nil, v)
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) && b != nil {
			t.Errorf("%v became %s, not %s", v, got, want)
		}
	}
	if got := string(appendValue(nil, map[string]any{"b": math.NaN(), "a": make(chan int)})); got != `{"a":null,"b":null}` {
		t.Error(got)
	}
}

// TestResults: what is written out here is what the general way gives.
func TestResults(t *testing.T) {
	text := &mcp.TextContent{Text: "a \"text\"\n"}
	for _, res := range []*mcp.CallToolResult{
		{Content: []mcp.Content{text}, Meta: mcp.Meta{"m": map[string]any{"n": 1, "ms": 0.125}}},
		{Content: []mcp.Content{text}, IsError: true, Meta: mcp.Meta{}},
		{Content: []mcp.Content{text, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}},
		{Content: []mcp.Content{text}, StructuredContent: map[string]any{"x": 1.0}},
	} {
		want, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		got := appendResult([]byte("before"), res)
		var a, b map[string]any
		if json.Unmarshal(got[len("before"):], &a) != nil || json.Unmarshal(want, &b) != nil {
			t.Fatalf("%s, %s", got, want)
		}
		if b["_meta"] == nil {
			b["_meta"] = map[string]any{} // there may be none
		}
		if a["_meta"] == nil {
			a["_meta"] = map[string]any{}
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func BenchmarkString(b *testing.B) {
	s := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\n", 165)
	out := make([]byte, 0, 2*len(s))
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		out = appendString(out[:0], s)
	}
}
