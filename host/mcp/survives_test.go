package mcp

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSurvives checks that a panic in a request becomes the error of this request, and that the log says where it was.
func TestSurvives(t *testing.T) {
	var log strings.Builder
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddReceivingMiddleware(survives(slog.New(slog.NewTextHandler(&log, nil))), func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				panic("a defect")
			}
			return next(ctx, method, req)
		}
	})
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "a defect that this request shows") {
		t.Errorf("the error is %v", err)
	}
	if err := client.Ping(t.Context(), nil); err != nil {
		t.Errorf("the server does not go on: %v", err)
	}
	if !strings.Contains(log.String(), "survives_test.go") {
		t.Errorf("the log does not say where the panic was: %s", log.String())
	}
}
