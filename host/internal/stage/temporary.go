package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/scratch"
)

// Temporary creates the temporary directory of the session for a call that can use it. All other calls run without this
// directory. One process can therefore serve calls of several sessions. The stage stops a call that exceeds the limit
// of the directory.
func Temporary(log *slog.Logger) Stage {
	return Stage{Name: "temporary", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			rest, tmp := scratch.Split(c.Decision.Sent.Roots)
			if tmp.Path == "" {
				return next(ctx, c)
			}
			if !c.Decision.Policy.Temporary && !c.UsesTemporary() {
				c.Decision.Sent.Roots = rest
				return next(ctx, c)
			}
			if err := scratch.Make(tmp.Source); err != nil {
				log.Warn("the temporary directory of a session cannot be created; each plugin uses its own", "directory", tmp.Source, "error", err)
				c.Decision.Sent.Roots = rest
				return next(ctx, c)
			}
			limit := c.Identity.Confinement.TemporaryLimit()
			if limit == 0 || c.Identity.Tool.Definition.Traits.ReadOnly {
				return next(ctx, c)
			}
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			go watchSize(ctx, stop, tmp.Source, limit)
			res := next(ctx, c)
			if full := (*fullError)(nil); res.Error != nil && errors.As(context.Cause(ctx), &full) {
				res.Error = tool.Errorf(tool.PermissionDenied, "%s was stopped, because the temporary files of the session in %s use more than %s. Remove files there first. "+
					"To change the limit, the operator sets limits { temporary } in the sandbox block of plugin %q.", c.Identity.Tool.FullName(), tmp.Path, megabytes(limit),
					c.Identity.Tool.Plugin).From(tool.SourceHost)
			}
			return res
		}
	}}
}

// measureEvery is the minimum time between two measurements of a temporary directory. After a slow measurement, the
// next one waits longer: measuring takes at most one fiftieth of the time.
const measureEvery = time.Second

// fullError is the cause of a context that the stage "temporary" canceled.
type fullError struct{}

func (*fullError) Error() string { return "the temporary directory of the session is full" }

// watchSize cancels a call if a directory contains more than limit bytes. It returns when ctx ends.
func watchSize(ctx context.Context, stop context.CancelCauseFunc, dir string, limit uint64) {
	for pause := measureEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		if scratch.Exceeds(dir, limit) {
			stop(&fullError{})
			return
		}
		pause = max(measureEvery, 50*time.Since(began))
	}
}

// megabytes formats a size for messages.
func megabytes(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
}
