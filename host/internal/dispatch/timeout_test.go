package dispatch

import (
	"context"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestTimeLimits(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
		<-ctx.Done()
		return tool.Failed(ctx.Err())
	})
	if e := run(t, d, "brief").Error; e == nil || e.Kind != tool.Timeout || !strings.Contains(e.Message, `brief took longer than 50ms and was stopped`) || !strings.Contains(e.Message, `tool "brief" { timeout`) {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := d.Begin(Request{Command: "change", Session: session("s")})
	cancel()
	if e := p.Run(ctx, front{}).Error; e == nil || e.Kind != tool.Canceled {
		t.Errorf("%+v", e)
	}
}
