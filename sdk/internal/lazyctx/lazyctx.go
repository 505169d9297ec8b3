// Package lazyctx implements a context that costs almost nothing until a goroutine waits for its end.
//
// A call is notified of a cancel only if a goroutine waits for the cancel. Waking up that goroutine takes a
// considerable part of the time of a short call. Most short calls never wait for the end of their context.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context is a [context.Context]. Use [New] to create one.
type Context struct {
	parent   context.Context
	deadline time.Time
	watch    func()

	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error // cause of a cancellation before the real context was created
}

// New returns a context with the given parent. If watch is not nil, it is called once, when a goroutine first waits
// for the end of the context. The function "watch" must then call Cancel at the end of the call. A deadline that is
// not zero is reported but not enforced.
func New(parent context.Context, deadline time.Time, watch func()) *Context {
	return &Context{parent: parent, deadline: deadline, watch: watch}
}

// Cancel ends the context. Only the first cause counts. A nil cause means [context.Canceled].
func (c *Context) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause == nil {
		cause = context.Canceled
	}
	if c.inner != nil {
		c.cancel(cause)
	} else if c.cause == nil {
		c.cause = cause
	}
}

// settle returns the real context. The first call of settle creates it.
func (c *Context) settle() context.Context {
	c.mu.Lock()
	if c.inner != nil {
		defer c.mu.Unlock()
		return c.inner
	}
	c.inner, c.cancel = context.WithCancelCause(c.parent)
	if c.cause != nil {
		c.cancel(c.cause)
	}
	inner, over := c.inner, c.cause != nil
	c.mu.Unlock()
	if c.watch != nil && !over {
		c.watch()
	}
	return inner
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) {
	if !c.deadline.IsZero() {
		return c.deadline, true
	}
	return c.parent.Deadline()
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.settle().Done() }

// Err implements [context.Context].
func (c *Context) Err() error { return c.settle().Err() }

// Value implements [context.Context]. Package context calls Value to find the cause.
func (c *Context) Value(key any) any { return c.settle().Value(key) }
