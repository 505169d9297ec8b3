package versions

import (
	"context"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/rollout"
)

// meter counts the bytes that a running call sends to its client during a rollout. It stops a call that exceeds its
// limit.
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
	return m.add(len(title) + jsonSize(metadata))
}

// jsonSize returns the approximate number of bytes that a decoded JSON value needs as text.
func jsonSize(v any) int {
	const other = 8 // numbers, booleans and null
	size := 2
	switch v := v.(type) {
	case string:
		return size + len(v)
	case map[string]any:
		for key, value := range v {
			size += len(key) + 4 + jsonSize(value)
		}
		return size
	case []any:
		for _, value := range v {
			size += 1 + jsonSize(value)
		}
		return size
	}
	return other
}

func (m *meter) total() int64 { return m.sent.Load() }

// meteredClient is the client of a call with a meter.
type meteredClient struct {
	call.Client
	*meter
}

// measured replaces the client of a call by a client that counts messages with a meter. The caller must call end after
// the call.
func measured(c *call.Call, stop context.CancelFunc, limit int64) *meter {
	m := &meter{limit: limit, stop: stop}
	c.Shown = meteredClient{c.Shown, m}
	return m
}

// end restores the original client of the call.
func (m *meter) end(c *call.Call) {
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

// Log implements [call.Client].
func (c meteredClient) Log(m tool.LogMessage) {
	if c.add(len(m.Data)) {
		c.Client.Log(m)
	}
}
