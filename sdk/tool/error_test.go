package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

func TestErrorWrapping(t *testing.T) {
	err := tool.Errorf(tool.NotFound, "no such file: %w", io.EOF).WithCode(4)
	wrapped := fmt.Errorf("reading: %w", err)
	for name, ok := range map[string]bool{
		"cause":       errors.Is(wrapped, io.EOF),
		"kind":        errors.Is(wrapped, &tool.Error{Kind: tool.NotFound}),
		"kind + code": errors.Is(wrapped, &tool.Error{Kind: tool.NotFound, Code: 4}),
		"not kind":    !errors.Is(wrapped, &tool.Error{Kind: tool.Conflict}),
		"not code":    !errors.Is(wrapped, &tool.Error{Kind: tool.NotFound, Code: 5}),
		"both causes": errors.Is(tool.Errorf(tool.Internal, "%w, %w", io.EOF, io.ErrClosedPipe), io.ErrClosedPipe),
		"no cause":    tool.Errorf(tool.Internal, "x").Unwrap() == nil,
		"with cause":  errors.Is(tool.Errorf(tool.Internal, "x").WithCause(io.EOF), io.EOF),
	} {
		if !ok {
			t.Error(name)
		}
	}
	// Methods that return copies must not change the original.
	if err.From(tool.SourceHost); err.Source != "" {
		t.Errorf("source %q", err.Source)
	}
}

func TestAsError(t *testing.T) {
	inner := tool.Errorf(tool.Conflict, "changed").WithCode(7).From(tool.SourceTool)
	for _, tc := range []struct {
		err  error
		want tool.Error
	}{
		{inner, tool.Error{Kind: tool.Conflict, Code: 7, Source: tool.SourceTool, Message: "changed"}},
		{fmt.Errorf("editing x: %w", inner), tool.Error{Kind: tool.Conflict, Code: 7, Source: tool.SourceTool, Message: "editing x: changed"}},
		{context.Canceled, tool.Error{Kind: tool.Canceled, Message: "The call was canceled."}},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), tool.Error{Kind: tool.Timeout, Message: "The call exceeded its time limit."}},
		{io.EOF, tool.Error{Kind: tool.ExecutionFailed, Message: "EOF"}},
		{errors.Join(io.EOF, inner), tool.Error{Kind: tool.Conflict, Code: 7, Source: tool.SourceTool, Message: "EOF\nchanged"}},
	} {
		got := tool.AsError(tc.err)
		if got.Kind != tc.want.Kind || got.Code != tc.want.Code || got.Source != tc.want.Source || got.Message != tc.want.Message {
			t.Errorf("%v: %+v", tc.err, got)
		}
		if !errors.Is(got, tc.err) && got != tc.err { //nolint:errorlint // identity is meant
			t.Errorf("%v is not the cause of %v", tc.err, got)
		}
	}
	if tool.AsError(nil) != nil {
		t.Error("nil is an error")
	}
}

// TestResultJSON checks that success, output and error are always present, and that exactly one of output and error is
// null.
func TestResultJSON(t *testing.T) {
	for _, tc := range []struct {
		res  tool.Result
		want string
	}{
		{tool.Result{}, `"success":true,"output":"","error":null`},
		{tool.Result{Output: "hi <&>\xff"}, `"success":true,"output":"hi \u003c\u0026\u003e\ufffd","error":null`},
		{*tool.Failed(io.EOF), `"success":false,"output":null,"error":{"kind":"execution_failed","code":1009,"message":"EOF"}`},
		{tool.Result{Output: "ignored", Error: tool.Errorf(tool.Timeout, "late").From(tool.SourceTool)}, `"success":false,"output":null,"error":{"kind":"timeout","code":1005,"message":"late","source":"tool"}`},
	} {
		b, err := json.Marshal(&tc.res)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(b), "{"+tc.want) {
			t.Errorf("%s\nwanted %s", b, tc.want)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if _, ok := m["output"]; !ok || (m["output"] == nil) == (m["error"] == nil) || m["success"] != (m["error"] == nil) {
			t.Errorf("the contract is broken: %s", b)
		}
	}
}

func TestResultMetadata(t *testing.T) {
	mine := map[string]any{"lines": 3, "tool": "forged", "cache_hit": true}
	res := tool.Result{Title: "t", Metadata: mine, Data: json.RawMessage(`{"n":12345678901234567890}`),
		Attachments: []tool.Attachment{{Type: "image", Path: "p", MediaType: "image/png", Content: []byte{0, 255}}},
		Effects:     []tool.Effect{{}}, SessionState: []byte("secret"), Cwd: "/x",
		Run: tool.Run{CallID: "1", Tool: "read", Plugin: "p", PluginVersion: "1.0.0", QueueTime: 1500 * time.Microsecond, ExecutionTime: 2 * time.Second, Attempts: 2}}
	b, err := json.Marshal(&res)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata    map[string]any
		Data        json.RawMessage
		Attachments []map[string]any
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"lines": 3.0, "tool": "read", "cache_hit": false, "call_id": "1", "plugin": "p", "plugin_version": "1.0.0", "queue_ms": 1.5, "execution_ms": 2000.0, "attempts": 2.0}
	if !reflect.DeepEqual(got.Metadata, want) {
		t.Errorf("metadata %v", got.Metadata)
	}
	if string(got.Data) != `{"n":12345678901234567890}` || got.Attachments[0]["content"] != "AP8=" {
		t.Errorf("%s", b)
	}
	if strings.Contains(string(b), "secret") || strings.Contains(string(b), "c2VjcmV0") || strings.Contains(string(b), `"/x"`) {
		t.Errorf("what is between tool and host is published: %s", b)
	}
	if len(mine) != 3 || mine["tool"] != "forged" {
		t.Errorf("the tool's own map was changed: %v", mine)
	}
}

func TestDefinitionValidate(t *testing.T) {
	good := tool.Definition{Name: "x", Description: "d", Input: json.RawMessage(`{"type":"object","properties":{"a":{}}}`)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := tool.Definition{Category: "odd", Input: json.RawMessage(`{`), StdinParameter: "a"}
	err := bad.Validate()
	for _, want := range []string{"the name is empty", "the description is empty", `unknown category "odd"`, "the input schema is not valid"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	good.StdinParameter = "b"
	if err := good.Validate(); err == nil || !strings.Contains(err.Error(), `stdin parameter "b"`) {
		t.Error(err)
	}
	for name, ok := range map[string]bool{
		"a": true, "a-b_c.9": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "A": false, "9a": false, "-a": false, "a b": false, "a:b": false, "a/b": false, "é": false, "a\n": false,
	} {
		if tool.ValidName(name) != ok {
			t.Errorf("ValidName(%q) is %v", name, !ok)
		}
	}
}
