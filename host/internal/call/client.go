package call

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// Caller receives the events of a running call and answers its questions. Frontends implement it. A Caller can also
// implement further methods of [Client]; [Complete] detects them. AnswersRequests differs: a Caller implements it
// without a result, and only if it answers requests of MCP servers.
type Caller interface {
	Progress(title string, metadata map[string]any)
	Output(stream tool.Stream, chunk []byte)
	Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error)
}

// Client is a [Caller] with all methods. A wrapper embeds a Client, so that it passes on each method that it does not
// replace.
type Client interface {
	Caller
	// Log receives a log message of the tool.
	Log(m tool.LogMessage)
	// ReachesPerson reports whether a person can answer at once. If one can, the policy also asks about paths outside
	// the roots. Otherwise it refuses such paths.
	ReachesPerson() bool
	// Decided reports whether permission requests are answered without a person.
	Decided() bool
	// Parks reports whether a question goes to a person who may never come back with the answer.
	Parks() bool
	// AnswersRequests reports whether the client answers requests of MCP servers.
	AnswersRequests() bool
}

// Complete returns the client of a caller. A method that the caller does not have ignores log messages or returns
// false.
func Complete(c Caller) Client {
	if c, ok := c.(Client); ok {
		return c
	}
	return completed{c}
}

// completed adds the optional methods to a caller.
type completed struct{ Caller }

// Log implements [Client].
func (c completed) Log(m tool.LogMessage) {
	if l, ok := c.Caller.(tool.Logger); ok {
		l.Log(m)
	}
}

// ReachesPerson implements [Client].
func (c completed) ReachesPerson() bool {
	r, ok := c.Caller.(interface{ ReachesPerson() bool })
	return ok && r.ReachesPerson()
}

// Decided implements [Client].
func (c completed) Decided() bool {
	d, ok := c.Caller.(interface{ Decided() bool })
	return ok && d.Decided()
}

// Parks implements [Client].
func (c completed) Parks() bool {
	p, ok := c.Caller.(interface{ Parks() bool })
	return ok && p.Parks()
}

// AnswersRequests implements [Client].
func (c completed) AnswersRequests() bool {
	_, ok := c.Caller.(interface{ AnswersRequests() })
	return ok
}
