package supervisor

import (
	"context"
	"time"
)

const (
	// livenessChecks is the number of health checks that a plugin must fail before it counts as hung, and livenessTimeout
	// limits each.
	livenessChecks, livenessTimeout = 2, 2 * time.Second
)

// suspect checks whether a process hangs, because it did not acknowledge the end of a call. If it does not answer the
// health checks, it is killed, and the next call starts another one. Any answer shows that it does not hang.
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

// exitText describes how the process ended.
func (in *instance) exitText() string {
	if in.hung.Load() {
		return "it did not answer two health checks and was killed"
	}
	return in.proc.exitText()
}
