// Package lazyctx implements a context that costs nothing until somebody waits for its end.
//
// To be notified of a cancel takes a goroutine that waits for it. Waking one up for each call is a
// good part of the cost of a short call, and most short calls never wait.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context is a [context.Context]. Make it with [New].
type Context struct {
	parent   context.Context
	deadline time.Time
	watch    func()

	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error // of a cancel before anybody asked
}

// New returns a context below parent. If watch is not nil, it is called once, when somebody first
// waits for the end of the context, and must call Cancel when that end comes. Deadline, if not
// zero, is reported but not enforced.
func New(parent context.Context, deadline time.Time, watch func()) *Context {
	return &Context{parent: parent, deadline: deadline, watch: watch}
}

// Cancel ends the context. The first cause counts, and nil means [context.Canceled].
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

// settle returns the real context, and creates it the first time.
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

// Value implements [context.Context]. Package context also uses it to find the cause.
func (c *Context) Value(key any) any { return c.settle().Value(key) }
