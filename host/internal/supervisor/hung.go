package supervisor

import (
	"context"
	"time"
)

const (
	// A plugin counts as hung after it fails livenessChecks health checks. The timeout of each check is
	// livenessTimeout.
	livenessChecks, livenessTimeout = 2, 2 * time.Second
)

// suspect checks whether a process hangs. It is called if the process did not acknowledge the end of a call. A process
// that answers no health check is killed, and the next call starts a new process. Any answer proves that the process
// does not hang.
func (p *Plugin) suspect(in *instance) {
	if !in.checking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer in.checking.Store(false)
		for range livenessChecks {
			ctx, cancel := context.WithTimeout(p.life, livenessTimeout)
			_, _ = in.rpc.Health(ctx, "")
			answered := ctx.Err() == nil
			cancel()
			if answered || p.life.Err() != nil || in.dead() {
				return
			}
		}
		p.super.opts.Log.Warn("a plugin that does not answer is replaced", "plugin", p.spec.Name, "pid", in.proc.pid())
		in.hung.Store(true)
		_ = in.proc.Kill(context.Background())
	}()
}

// stopChecks is the time between two checks of whether a process is stopped.
const stopChecks = 5 * time.Second

// watchForStop returns when the process has ended. If a signal such as SIGSTOP stops the process during a call,
// watchForStop treats the process as hung. Otherwise the call would wait for its timeout. A slow process is never
// killed.
func (p *Plugin) watchForStop(in *instance) {
	tick := time.NewTicker(stopChecks)
	defer tick.Stop()
	for before := false; ; {
		select {
		case <-in.proc.exited:
			return
		case <-tick.C:
		}
		now := in.calls.n.Load() > 0 && isStopped(in.proc.pid())
		if now && before {
			p.suspect(in)
		}
		before = now
	}
}

// exitText describes how the process ended.
func (in *instance) exitText() string {
	if in.hung.Load() {
		return "it did not answer two health checks and was killed"
	}
	return in.proc.exitText()
}
