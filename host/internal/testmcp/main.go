// Command testmcp is a plugin with the tools that MCP's conformance suite requires.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// png is an image with one red pixel. wav is an empty sound.
var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
	wav = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)

const schema202012 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

type none struct{}

type asking struct {
	Message string `json:"message" jsonschema:"what to ask"`
}

func main() {
	image := tool.Attachment{Type: "image", MediaType: "image/png", Content: png}
	file := tool.Attachment{Type: "file", MediaType: "text/plain", Content: []byte("This is an embedded resource content.")}
	sdk.Serve(sdk.Plugin{Name: "testmcp", Version: "1.0.0", Tools: []sdk.Tool{
		give("test_simple_text", "This is a simple text response for testing."),
		give("test_image_content", "", image),
		give("test_audio_content", "", tool.Attachment{Type: "file", MediaType: "audio/wav", Content: wav}),
		give("test_embedded_resource", "", file),
		give("test_multiple_content_types", "Multiple content types test:", image, file),
		define("test_tool_with_progress", "", func(_ context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			for i := range 3 {
				call.Progress(fmt.Sprintf("Completed step %d of 3", i+1), nil)
			}
			return sdk.Text("done"), nil
		}),
		define("test_error_handling", "", func(context.Context, *sdk.Call, none) (*sdk.Result, error) {
			return nil, sdk.Errorf(tool.ExecutionFailed, "This tool intentionally returns an error for testing.")
		}),
		define("test_elicitation", "", ask),
		define("test_input_required_result_elicitation", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			return ask(ctx, call, asking{"What is your name?"})
		}),
		define("test_input_required_result_tampered_state", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			return ask(ctx, call, asking{"Go on?"})
		}),
		define("test_input_required_result_request_state", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			return ask(ctx, call, asking{"Go on?"})
		}),
		define("test_input_required_result_multi_round", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			if _, err := ask(ctx, call, asking{"What is your name?"}); err != nil {
				return nil, err
			}
			return ask(ctx, call, asking{"What is your favourite colour?"})
		}),
		define("test_input_required_result_capabilities", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			return ask(ctx, call, asking{"What is your name?"})
		}),
		define("test_streaming_elicitation", "", func(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
			call.Progress("asking", nil)
			return ask(ctx, call, asking{"What is your name?"})
		}),
		define("test_x_mcp_header", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
			func(_ context.Context, _ *sdk.Call, in struct {
				Region string `json:"region"`
			}) (*sdk.Result, error) {
				return sdk.Text(in.Region), nil
			}),
		define("json_schema_2020_12_tool", schema202012, func(context.Context, *sdk.Call, map[string]any) (*sdk.Result, error) { return sdk.Text("ok"), nil }),
	}})
}

func define[In any](name, schema string, handler func(context.Context, *sdk.Call, In) (*sdk.Result, error)) sdk.Tool {
	def := sdk.Definition{Name: name, Description: "A tool of the conformance suite.", Traits: sdk.Traits{ConcurrencySafe: true, ReadOnly: true}}
	if schema != "" {
		def.Input = json.RawMessage(schema)
	}
	return sdk.NewTool(def, handler)
}

func give(name, text string, attachments ...tool.Attachment) sdk.Tool {
	return define(name, "", func(context.Context, *sdk.Call, none) (*sdk.Result, error) {
		return &sdk.Result{Output: text, Attachments: attachments}, nil
	})
}

func ask(ctx context.Context, call *sdk.Call, in asking) (*sdk.Result, error) {
	a, err := call.Question(ctx, tool.Question{Text: in.Message, FreeText: true})
	if err != nil {
		return nil, err
	}
	return sdk.Text(fmt.Sprintf("User response: %s %q", a.Outcome, a.Values)), nil
}
