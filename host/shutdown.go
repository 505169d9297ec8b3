package host

import (
	"context"

	"toolhost.dev/host/internal/engine"
)

// CodeShutdown is the code of the error for calls that arrive while the host shuts down.
const CodeShutdown = engine.CodeShutdown

// Listening describes the socket of a server for [Host.OfferListener].
type Listening = engine.Listening

// Drain refuses new calls with the kind unavailable. It waits for the running calls, at most for the shutdown_timeout of
// the configuration. The caller then closes the host, which cancels the rest.
func (h *Host) Drain(ctx context.Context) { h.engine.Drain(ctx) }

// Ready returns an error if the host takes no more calls.
func (h *Host) Ready() error { return h.engine.Ready() }

// Usable returns an error if no call can succeed: the host takes no more calls, its audit log cannot be written, or no
// plugin is usable.
func (h *Host) Usable(ctx context.Context) error { return h.engine.Usable(ctx) }

// Yield waits until no more calls arrive, because another host accepts the connections. It refuses no calls, and waits at
// most for the shutdown_timeout of the configuration.
func (h *Host) Yield(ctx context.Context) { h.engine.Yield(ctx) }

// Share makes each change of a session visible to other hosts before the call is answered. Call it before another host
// serves the calls of this one.
func (h *Host) Share() error { return h.engine.Share() }

// OfferListener lets another process of the same user acquire the socket of a server.
func (h *Host) OfferListener(l Listening) { h.engine.OfferListener(l) }

// OfferConsole lets other processes of the same user get links to the web console of this host, with admin.Remote. The
// function link returns a new one-time link.
func (h *Host) OfferConsole(link func() string) { h.engine.OfferConsole(link) }

// Taken is the socket of another host.
type Taken = engine.Taken

// TakeListener acquires the socket with an address from the running host that listens on it and has the same state
// directory. The caller must serve the listener and then call Serving, which ends the other host, or call Return.
func (h *Host) TakeListener(ctx context.Context, address string) (*Taken, error) {
	return h.engine.TakeListener(ctx, address)
}

// ErrStopped is the cause with which a program cancels the context of calls because it stops itself. The results of the
// calls then say so, and do not blame the caller.
var ErrStopped = engine.ErrStopped
