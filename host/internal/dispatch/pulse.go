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

// DefaultPulse is the time without events after which a client gets a sign of life. Clients that give up after a minute
// of silence then wait as long as a call takes.
const DefaultPulse = 10 * time.Second

// pulse is a client that also gets a sign of life whenever a call was silent for a while.
type pulse struct {
	call.Client
	every time.Duration

	call   *Call // only for RunsSince, because the call changes while it runs
	name   string
	ticket *scheduler.Ticket
	began  time.Time

	sending sync.Mutex // locked during beat

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // of the last event
	line  string    // the last line of output
	ended bool
}

// startPulse wraps the client of a call. The caller must call stop at the end of the call.
func startPulse(c *Call, client call.Client, every time.Duration) *pulse {
	if every <= 0 {
		every = DefaultPulse
	}
	p := &pulse{Client: client, every: every, call: c, name: nameOf(c), ticket: c.Ticket, began: c.Identity.Started, last: time.Now()}
	p.mu.Lock() // the timer must be set before it fires
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.beat)
	return p
}

// stop ends the signs of life. When it returns, the client gets no more of them.
func (p *pulse) stop() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.timer.Stop()
}

// Progress implements [call.Client].
func (p *pulse) Progress(title string, metadata map[string]any) {
	p.event(nil)
	p.Client.Progress(title, metadata)
}

// Output implements [call.Client].
func (p *pulse) Output(s tool.Stream, chunk []byte) {
	p.event(chunk)
	p.Client.Output(s, chunk)
}

// maxLine limits the last line of output in a sign of life, in bytes.
const maxLine = 200

func (p *pulse) event(chunk []byte) {
	chunk = bytes.TrimRight(chunk[max(0, len(chunk)-maxLine):], " \t\r\n")
	line := strings.ToValidUTF8(string(chunk[bytes.LastIndexAny(chunk, "\r\n")+1:]), "")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if line != "" {
		p.line = line
	}
}

// beat sends a sign of life if the call was silent, and sets the timer again.
func (p *pulse) beat() {
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

// activity describes what the call does now, and since when.
func (p *pulse) activity() (doing string, since time.Time) {
	if began := p.call.RunsSince(); !began.IsZero() {
		return p.name + " runs", began
	}
	if w, waits := p.ticket.Waiting(); waits {
		if w.Label == "" {
			return "waits for other calls", p.began
		}
		return "waits for " + w.Label, p.began
	}
	return p.name + " waits for permission or for room beside other calls", p.began
}
