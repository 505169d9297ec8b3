package dispatch

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/scheduler"
)

// DefaultPulse is the time without events after which a client gets a heartbeat. The heartbeats keep clients from
// giving up, even if they accept only one minute of silence.
const DefaultPulse = 10 * time.Second

// pulseClient is a client that also gets a heartbeat whenever its call was silent for some time.
type pulseClient struct {
	call.Client
	every time.Duration

	call   *call.Call // used only for RunsSince, because the call changes while it runs
	name   string
	ticket *scheduler.Ticket
	began  time.Time

	sending sync.Mutex // locked during the method "beat"

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // time of the last event
	line  string    // the last line of output
	ended bool
}

// startPulse wraps the client of a call. The call must already have its ticket. The argument "name" is the name of the
// call's tool. If every is 0, the default applies. The caller must call Stop at the end of the call.
func startPulse(c *call.Call, name string, client call.Client, every time.Duration) *pulseClient {
	if every <= 0 {
		every = DefaultPulse
	}
	p := &pulseClient{
		Client: client, every: every, call: c, name: name, ticket: c.Ticket, began: c.Identity.Started,
		last: time.Now(),
	}
	p.mu.Lock() // the timer must be set before it fires
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.beat)
	return p
}

// Stop ends the heartbeats. After Stop returns, the client gets no more heartbeats.
func (p *pulseClient) Stop() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.timer.Stop()
}

// Progress implements [call.Client].
func (p *pulseClient) Progress(title string, metadata map[string]any) {
	p.event(nil)
	p.Client.Progress(title, metadata)
}

// Output implements [call.Client].
func (p *pulseClient) Output(s tool.Stream, chunk []byte) {
	p.event(chunk)
	p.Client.Output(s, chunk)
}

// maxPulseLine limits the length in bytes of the output line in a heartbeat.
const maxPulseLine = 200

func (p *pulseClient) event(chunk []byte) {
	chunk = bytes.TrimRight(chunk[max(0, len(chunk)-maxPulseLine):], " \t\r\n")
	line := strings.ToValidUTF8(string(chunk[bytes.LastIndexAny(chunk, "\r\n")+1:]), "")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if line != "" {
		p.line = line
	}
}

// beat sends a heartbeat if the call was silent, and sets the timer again.
func (p *pulseClient) beat() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	silent, line, ended := time.Since(p.last), p.line, p.ended
	p.mu.Unlock()
	if ended {
		return
	}
	if silent >= p.every {
		doing, since := p.activity()
		elapsed := time.Since(since)
		title := fmt.Sprintf("%s, %s", doing, elapsed.Round(time.Second))
		if line != "" {
			title += "; last line: " + line
		}
		p.Client.Progress(title, map[string]any{"activity": doing, "elapsed_ms": elapsed.Milliseconds()})
		silent = 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		if silent == 0 {
			p.last = time.Now()
		}
		p.timer.Reset(p.every - silent)
	}
}

// activity describes the current activity of the call and its start time.
func (p *pulseClient) activity() (doing string, since time.Time) {
	if began := p.call.RunsSince(); !began.IsZero() {
		return p.name + " runs", began
	}
	if what := p.call.WaitsFor(); what != "" {
		return "waits for " + what, p.began
	}
	if w, waits := p.ticket.Waiting(); waits {
		if w.Label == "" {
			return "waits for other calls", p.began
		}
		return "waits for " + w.Label, p.began
	}
	return p.name + " waits for permission, or until fewer other calls run", p.began
}
