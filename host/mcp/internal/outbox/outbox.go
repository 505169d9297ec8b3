// Package outbox writes the messages of many goroutines to one stream. [Outbox.Post] is for answers, and [Outbox.Write]
// for a caller that must know whether its message was written.
//
// Messages that arrive during a write are collected, and the next write has all of them. A goroutine therefore does not
// wait for the writes of others.
package outbox

import (
	"io"
	"sync"
)

const (
	// maxQueued is a size in bytes. If the collected messages reach it, further messages wait, because a client may
	// read more slowly than its calls end.
	maxQueued = 1 << 20
	// maxKept is the size in bytes of the largest buffer that is reused.
	maxKept = 256 << 10
)

// Outbox is a writer of whole messages. Several goroutines can use it at the same time. The messages are written in the
// order of the calls of Post and Write.
type Outbox struct {
	out io.Writer

	mu      sync.Mutex
	changed sync.Cond
	writing bool   // whether a goroutine writes; it also writes what is collected meanwhile
	queued  []byte // the messages of the next write
	spare   []byte // an empty buffer
	begun   uint64 // number of the last write that began
	ended   uint64 // number of the last write that ended
	err     error  // the first error of a write; nothing is written after it
}

// New returns an outbox for a stream.
func New(out io.Writer) *Outbox {
	o := &Outbox{out: out}
	o.changed.L = &o.mu
	return o
}

// Post writes a message. If another goroutine is writing, the message is written soon after Post returned. Post copies
// the message in this case. Errors are not returned.
func (o *Outbox) Post(message []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.collect(message) == 0 {
		o.write(message)
	}
}

// Write implements [io.Writer]. It returns when the message was written.
func (o *Outbox) Write(message []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	number := o.collect(message)
	if number == 0 {
		number = o.begun + 1
		o.write(message)
	}
	for o.ended < number && o.err == nil {
		o.changed.Wait()
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(message), nil
}

// Wait returns when all messages are written, or when a write failed.
func (o *Outbox) Wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.changed.Wait()
	}
}

// collect adds a message to the next write, and returns the number of this write. It returns 0 if no goroutine writes.
// The caller must hold o.mu.
func (o *Outbox) collect(message []byte) uint64 {
	for o.writing && len(o.queued) > maxQueued {
		o.changed.Wait()
	}
	if !o.writing {
		return 0
	}
	o.queued = append(o.queued, message...)
	return o.begun + 1
}

// write writes a message, and then what was collected meanwhile. The caller must hold o.mu, which write unlocks during
// the writes.
func (o *Outbox) write(message []byte) {
	o.writing = true
	for collected := false; ; collected = true {
		o.begun++
		if o.err == nil {
			o.mu.Unlock()
			_, err := o.out.Write(message)
			o.mu.Lock()
			o.err = err
		}
		o.ended = o.begun
		if collected && cap(message) <= maxKept {
			o.spare = message[:0]
		}
		o.writing = len(o.queued) > 0
		o.changed.Broadcast()
		if !o.writing {
			return
		}
		message = o.queued
		o.queued, o.spare = o.spare, nil
	}
}
