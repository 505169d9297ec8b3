package toolrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"toolhost.dev/sdk/tool"
	toolpbv1 "toolhost.dev/sdk/toolpb/v1"
)

// legacyAnswer is a test plugin of protocol version 1 that returns one answer.
type legacyAnswer struct {
	toolpbv1.PluginServiceClient
	r *toolpbv1.RunResponse
}

func (a legacyAnswer) Run(context.Context, *toolpbv1.RunRequest, ...grpc.CallOption) (*toolpbv1.RunResponse, error) {
	return a.r, nil
}

func TestLegacyResults(t *testing.T) {
	for name, c := range map[string]struct {
		r            *toolpbv1.RunResponse
		output, data string
		kind         tool.Kind
	}{
		"text":      {&toolpbv1.RunResponse{Success: true, Data: []byte(`"a\nb"`)}, "a\nb", "", ""},
		"object":    {&toolpbv1.RunResponse{Success: true, Data: []byte(" {\"a\":1}\n")}, `{"a":1}`, `{"a":1}`, ""},
		"nothing":   {&toolpbv1.RunResponse{Success: true}, "", "", ""},
		"null":      {&toolpbv1.RunResponse{Success: true, Data: []byte("null")}, "", "", ""},
		"no JSON":   {&toolpbv1.RunResponse{Success: true, Data: []byte("{a}")}, "", "", tool.Internal},
		"failure":   {&toolpbv1.RunResponse{Error: "100 %d", Data: []byte(`"so far"`)}, "so far", "", tool.ExecutionFailed},
		"no reason": {&toolpbv1.RunResponse{}, "", "", tool.ExecutionFailed},
	} {
		res := (&legacyClient{rpc: legacyAnswer{r: c.r}}).Call(t.Context(), &tool.Call{Tool: "t"}, nil)
		var kind tool.Kind
		if res.Error != nil {
			kind = res.Error.Kind
			if c.r.GetError() != "" && res.Error.Message != c.r.GetError() || res.Error.Message == "" {
				t.Errorf("%s: %q", name, res.Error.Message)
			}
		}
		if res.Output != c.output || string(res.Data) != c.data || kind != c.kind {
			t.Errorf("%s: %q %q %q", name, res.Output, res.Data, kind)
		}
	}
}
