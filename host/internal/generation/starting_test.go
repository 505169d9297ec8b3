package generation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"toolhost.dev/host/internal/config"
)

// TestStartsAreLimited checks that a local MCP server waits if the maximum number of such servers is already starting,
// and that other plugins do not wait.
func TestStartsAreLimited(t *testing.T) {
	local := &Plugin{Plugin: config.Plugin{Mounted: true}}
	remote := &Plugin{Plugin: config.Plugin{Mounted: true, Config: json.RawMessage(`{"url":"https://mcp.example.com/mcp"}`)}}
	var ended []func()
	for range cap(starting) {
		end, err := begin(t.Context(), local)
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, end)
	}
	for _, p := range []*Plugin{remote, {}} {
		end, err := begin(t.Context(), p)
		if err != nil {
			t.Error(err)
			continue
		}
		end()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := begin(ctx, local); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
	go ended[0]()
	end, err := begin(t.Context(), local)
	if err != nil {
		t.Fatal(err)
	}
	end()
	for _, end := range ended[1:] {
		end()
	}
	if len(starting) != 0 {
		t.Errorf("%d places are taken", len(starting))
	}
}
