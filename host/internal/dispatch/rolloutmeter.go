package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/rollout"
)

// meter counts what a call sends while it runs during a rollout. It stops a call that sends more than its limit.
type meter struct {
	limit   int64
	stop    context.CancelFunc // a nil stop means no limit
	sent    atomic.Int64
	flooded atomic.Bool
	asked   atomic.Bool // whether the call asked a person
}

// add counts a message. It reports whether the client gets the message.
func (m *meter) add(size int) bool {
	sent := m.sent.Add(int64(max(size, rollout.MessageSize)))
	if m.stop == nil || sent <= m.limit {
		return true
	}
	if m.flooded.CompareAndSwap(false, true) {
		m.stop()
	}
	return false
}

func (m *meter) progress(title string, metadata map[string]any) bool {
	size := len(title)
	if len(metadata) > 0 {
		b, _ := json.Marshal(metadata) // what is no JSON cannot come from a plugin
		size += len(b)
	}
	return m.add(size)
}

func (m *meter) total() int64 { return m.sent.Load() }

// meteredClient is the client of a call with a meter.
type meteredClient struct {
	call.Client
	*meter
}

// measured puts a meter before the client of a call. The caller must call end afterwards.
func measured(c *Call, stop context.CancelFunc, limit int64) *meter {
	m := &meter{limit: limit, stop: stop}
	c.Shown = meteredClient{c.Shown, m}
	return m
}

// end removes the meter.
func (m *meter) end(c *Call) {
	if client, ok := c.Shown.(meteredClient); ok {
		c.Shown = client.Client
	}
}

// Progress implements [call.Client].
func (c meteredClient) Progress(title string, metadata map[string]any) {
	if c.progress(title, metadata) {
		c.Client.Progress(title, metadata)
	}
}

// Output implements [call.Client].
func (c meteredClient) Output(stream tool.Stream, chunk []byte) {
	if c.add(len(chunk)) {
		c.Client.Output(stream, chunk)
	}
}

// Ask implements [call.Client].
func (c meteredClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	c.asked.Store(true)
	return c.Client.Ask(ctx, ask)
}

// ReachesPerson reports whether a person can answer the asks of the client at once.
func (c meteredClient) ReachesPerson() bool { return call.ReachesPerson(c.Client) }

// Decided reports whether permission asks of the client are answered without a person.
func (c meteredClient) Decided() bool { return call.Decided(c.Client) }

// Log implements [tool.Logger].
func (c meteredClient) Log(m tool.LogMessage) {
	if c.add(len(m.Data)) {
		call.Log(c.Client, m)
	}
}
