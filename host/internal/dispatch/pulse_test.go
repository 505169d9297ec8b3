package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

// living is a client that records the events that it receives.
type living struct {
	client
	titles chan string
}

func (h living) Progress(title string, metadata map[string]any) {
	if metadata["activity"] != nil && metadata["elapsed_ms"] != nil {
		select {
		case h.titles <- title:
		default:
		}
	}
}

// until waits for a progress notification that contains the given text, and returns the notification.
func (h living) until(t *testing.T, text string) string {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case title := <-h.titles:
			if strings.Contains(title, text) {
				return title
			}
		case <-late:
			t.Fatalf("no sign of life contains %q", text)
		}
	}
}

// TestSignsOfLife checks the progress notifications of a call that runs without output, and of another call that waits
// for the first call.
func TestSignsOfLife(t *testing.T) {
	release := make(chan struct{})
	d, s := claims(t, func(_ context.Context, c *tool.Call, p tool.Peer) *tool.Result {
		if c.ID == "1" {
			p.Output(tool.Stdout, []byte("compiling\nlinking\n\n"))
			<-release
		}
		return &tool.Result{Output: "ok"}
	})
	d.Pulse = time.Millisecond
	bash := func(id, command string) *Pending {
		return d.Begin(call.Request{ID: id, Name: "bash", Arguments: json.RawMessage(`{"command":"` + command + `"}`), Session: s})
	}
	runs, waits := living{titles: make(chan string, 1)}, living{titles: make(chan string, 1)}
	var wg sync.WaitGroup
	first, second := bash("1", "make all"), bash("2", "pwd")
	wg.Go(func() { first.Run(t.Context(), runs) })
	wg.Go(func() { second.Run(t.Context(), waits) })
	runs.until(t, "bash runs, ")
	runs.until(t, "; last line: linking")
	waits.until(t, "waits for bash: make all, ")
	close(release)
	wg.Wait()
}

// TestSignsOfLifeShowNoOutputThatAHookCanWithhold checks that a progress notification contains no output if a hook runs
// after the call.
func TestSignsOfLifeShowNoOutputThatAHookCanWithhold(t *testing.T) {
	release := make(chan struct{})
	d, s := claims(t, func(_ context.Context, _ *tool.Call, p tool.Peer) *tool.Result {
		p.Output(tool.Stdout, []byte("the secret\n"))
		<-release
		return &tool.Result{Output: "the secret"}
	})
	d.Pulse = time.Millisecond
	d.Hooks = hookOn(tool.HookAfter, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return nil, nil })
	h := living{titles: make(chan string, 1)}
	var wg sync.WaitGroup
	p := d.Begin(call.Request{ID: "1", Name: "bash", Arguments: json.RawMessage(`{"command":"x"}`), Session: s})
	wg.Go(func() { p.Run(t.Context(), h) })
	for range 3 {
		if title := h.until(t, "bash runs"); strings.Contains(title, "secret") {
			t.Error(title)
		}
	}
	close(release)
	wg.Wait()
}
