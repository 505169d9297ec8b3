package dispatch

import (
	"context"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// What the sandbox refused is found in the tool's own words. The message of a timeout replaces these.
func TestDenialsOfACallThatTimedOut(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "brief" {
			<-ctx.Done()
			return &tool.Result{Error: tool.Errorf(tool.Timeout, "words")}
		}
		return &tool.Result{Output: "words\n"}
	})
	d.Denied = func(plugin string, _ []tool.Root, since time.Time, printed string) []string {
		if plugin != "p" || strings.TrimSpace(printed) != "words" || time.Since(since) > time.Hour {
			t.Errorf("%s since %s: %q", plugin, since, printed)
		}
		return []string{"a", "b", "c", "d", "e", "f", "g"}
	}
	if res := run(t, d, "look"); res.Output != "words\n[a.]\n[b.]\n[c.]\n[d.]\n[e.]\n[The sandbox refused 2 more operations.]" {
		t.Errorf("%q", res.Output)
	}
	res := run(t, d, "brief")
	if all, ok := res.Metadata["denied"].([]string); !ok || len(all) != 7 || strings.Contains(res.Error.Message, "[a.]") || !strings.HasPrefix(res.Error.Message, "brief took longer") {
		t.Errorf("%+v", res)
	}
}
