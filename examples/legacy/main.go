// Command legacy is a plugin without toolhost's SDK. It uses go-plugin directly, with code that was generated from the
// schema of version 1 of the protocol. For new plugins, see docs/plugin-authors.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	legacypb "example.org/legacy/legacypb/toolhost/v1"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "TOOLHOST_PLUGIN", MagicCookieValue: "6b1f4f4c-toolhost-plugin"},
		Plugins:         plugin.PluginSet{"toolhost": served{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

// served adapts this plugin to the interface of go-plugin.
type served struct{ plugin.NetRPCUnsupportedPlugin }

func (served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error { //nolint:unparam // as go-plugin wants it
	legacypb.RegisterPluginServiceServer(s, server{})
	return nil
}

func (served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("this is the plugin, not the host")
}

// tool is the definition of a tool together with its handler. The handler returns data or an error.
type tool struct {
	*legacypb.Tool
	run func(ctx context.Context, r *legacypb.RunRequest) (any, error)
}

var tools = []tool{
	{&legacypb.Tool{
		Name: "count", Description: "Count the lines, words and bytes of a file.", ReadOnly: true,
		Parameters: []byte(`{"type":"object","required":["path"],"properties":{"path":{"type":"string","description":"The file.","x-toolhost-path":"read"}}}`),
	}, count},
	{&legacypb.Tool{
		Name: "shout", Description: "Say a text louder.", ReadOnly: true,
		Parameters: []byte(`{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"marks":{"type":"integer","default":1,"minimum":0,"maximum":10}}}`),
	}, shout},
	{&legacypb.Tool{
		Name: "wait", Description: "Wait for some seconds.", ReadOnly: true,
		Parameters: []byte(`{"type":"object","required":["seconds"],"properties":{"seconds":{"type":"number"}}}`),
	}, wait},
	{&legacypb.Tool{
		Name: "quit", Description: "End the plugin in the middle of the call, to see what the host does.",
		Parameters: []byte(`{"type":"object","properties":{}}`),
	}, quit},
}

type server struct {
	legacypb.UnimplementedPluginServiceServer
}

func (server) Describe(context.Context, *legacypb.DescribeRequest) (*legacypb.DescribeResponse, error) {
	out := &legacypb.DescribeResponse{Name: "legacy", Version: "0.9.0"}
	for _, t := range tools {
		out.Tools = append(out.Tools, t.Tool)
	}
	return out, nil
}

func (server) Run(ctx context.Context, r *legacypb.RunRequest) (*legacypb.RunResponse, error) {
	for _, t := range tools {
		if t.Name != r.GetTool() {
			continue
		}
		v, err := t.run(ctx, r)
		if err != nil {
			return &legacypb.RunResponse{Error: err.Error()}, nil //nolint:nilerr // that is how a tool fails
		}
		data, err := json.Marshal(v)
		return &legacypb.RunResponse{Success: true, Data: data}, err
	}
	return &legacypb.RunResponse{Error: "there is no tool " + r.GetTool()}, nil
}

func count(_ context.Context, r *legacypb.RunRequest) (any, error) {
	var in struct{ Path string }
	if err := json.Unmarshal(r.GetArguments(), &in); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(in.Path) {
		in.Path = filepath.Join(r.GetCwd(), in.Path)
	}
	text, err := os.ReadFile(in.Path)
	if err != nil {
		return nil, err
	}
	return map[string]int{"lines": strings.Count(string(text), "\n"), "words": len(strings.Fields(string(text))), "bytes": len(text)}, nil
}

func shout(_ context.Context, r *legacypb.RunRequest) (any, error) {
	var in struct {
		Text  string
		Marks int
	}
	if err := json.Unmarshal(r.GetArguments(), &in); err != nil {
		return nil, err
	}
	return strings.ToUpper(in.Text) + strings.Repeat("!", in.Marks), nil
}

func wait(ctx context.Context, r *legacypb.RunRequest) (any, error) {
	var in struct{ Seconds float64 }
	if err := json.Unmarshal(r.GetArguments(), &in); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
		return "done", nil
	case <-ctx.Done(): // the call was canceled or exceeded its timeout
		fmt.Fprintln(os.Stderr, "the waiting was ended")
		return nil, ctx.Err()
	}
}

func quit(context.Context, *legacypb.RunRequest) (any, error) {
	os.Exit(9)
	return nil, nil
}
