package mcp

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// TestOrderedParts checks that the parts of a result keep their order, and that parts that do not fit the text are
// ignored.
func TestOrderedParts(t *testing.T) {
	parts := []tool.Content{
		{Text: 5}, {Attachment: 1, Block: json.RawMessage(`{"annotations":{"priority":1}}`)},
		{Text: 4, Block: json.RawMessage(`{"type":"resource_link","uri":"file:///x","name":"x"}`)}, {Block: json.RawMessage(`{}`)}, {Text: 4},
	}
	image := []tool.Attachment{{Type: "image", MediaType: "image/png", Content: []byte{1}}}
	whole := `[{"type":"text","text":"first"},{"type":"image","mimeType":"image/png","data":"AQ==","annotations":{"priority":1}},{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"text","text":""},{"type":"text","text":"last"}`
	audio := []tool.Attachment{{Type: "file", MediaType: "application/ogg", Content: []byte{1}}}
	for _, tc := range []struct {
		text        string
		parts       []tool.Content
		attachments []tool.Attachment
		want        string
	}{
		{"first\nlink\n\nlast", parts, image, whole + "]"},
		{"first\nlink\n\nlast\n[A note of the host.]", parts, image, whole + `,{"type":"text","text":"[A note of the host.]"}]`},
		{"", []tool.Content{{Attachment: 1}}, audio, `[{"type":"audio","mimeType":"application/ogg","data":"AQ=="}]`},
		{"", []tool.Content{{Attachment: 1}}, []tool.Attachment{{Type: "file", MediaType: "image/png", Content: []byte{1}}}, `[{"type":"image","mimeType":"image/png","data":"AQ=="}]`},
		{"first", parts, image, "null"},
		{"first link  last", parts, image, "null"},
		{"first\nlink\n\nlast", parts, nil, "null"},
		{"text", nil, nil, "null"},
		{"x", []tool.Content{{Text: -1}}, nil, "null"},
		{"x", []tool.Content{{Text: 9}}, nil, "null"},
		{"x", []tool.Content{{Block: json.RawMessage(`{"type":"unknown"}`)}}, nil, "null"},
	} {
		got, err := json.Marshal(ordered(&tool.Result{Contents: tc.parts, Attachments: tc.attachments}, tc.text))
		if err != nil || string(got) != tc.want {
			t.Errorf("%q: %s %v, want %s", tc.text, got, err, tc.want)
		}
	}
}

// TestStructured checks that structured data is sent only for a function that declares an output schema.
func TestStructured(t *testing.T) {
	res := &tool.Result{Output: "21 degrees", Data: json.RawMessage(`{"degrees":21}`)}
	if out := toResult(res, function{}); out.StructuredContent != nil {
		t.Errorf("%+v", out)
	}
	if out := toResult(res, function{structured: true}); out.StructuredContent == nil || len(out.Content) != 1 {
		t.Errorf("%+v", out)
	}
}

// TestMetaOfServers checks that the metadata of a mounted server's result arrives, and that it cannot replace that of
// toolhost or of the protocol.
func TestMetaOfServers(t *testing.T) {
	theirs := map[string]any{"example.com/a": 1.0, metaPrefix + "error": "none", "io.modelcontextprotocol/x": true}
	res := &tool.Result{Metadata: map[string]any{tool.MetadataMCP: theirs, "lines": 2}}
	for _, mounted := range []bool{true, false} {
		out := toResult(res, function{mounted: mounted})
		own, _ := out.Meta[metaPrefix+"metadata"].(map[string]any)
		if (out.Meta["example.com/a"] == 1.0) != mounted || (own[tool.MetadataMCP] == nil) != mounted || own["lines"] != 2 || out.Meta[metaPrefix+"error"] != nil || out.Meta["io.modelcontextprotocol/x"] != nil {
			t.Errorf("mounted %v: %v", mounted, out.Meta)
		}
	}
}

// TestBadDefinition checks that a definition for which the SDK would panic causes an error.
func TestBadDefinition(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	r := &relay{server: &Server{mcp: s}}
	for _, i := range []tool.Item{
		{Kind: tool.ItemTemplate, Name: "t:{", Definition: json.RawMessage(`{"name":"t","uriTemplate":"t:{"}`)},
		{Kind: tool.ItemPrompt, Name: "p", Definition: json.RawMessage(`[]`)},
	} {
		if err := r.add(&host.Item{Item: i, Offered: "t:\x7f"}); err == nil {
			t.Errorf("%s is offered", i.FullName())
		}
	}
	header := &mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A B"}}}`)}
	if err := safely(func() { s.AddTool(header, nil) }); err == nil {
		t.Error("a tool with an invalid header is offered")
	}
}
