package stage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/shellscript"
)

// Layer enforces the limits of the session's branch. It measures the layer after each call that can change files, and
// once a second while such a call runs. A call that makes the layer too large is stopped. While the layer is too large,
// only an undo and calls that remove files can run.
func Layer() Stage {
	return Stage{Name: "layer", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			l := c.Request.Session.Layer
			if l == nil || c.Identity.Depth > 0 || claim.ChangesNothing(c) {
				return next(ctx, c)
			}
			size, files := l.LastUsage()
			if exceeds(l, size, files) {
				size, files = l.Usage()
			}
			before := *l
			if exceeds(l, size, files) && !removes(c) {
				return call.Refused(tool.Errorf(tool.PermissionDenied, "%s was not run, because %s. %s",
					c.Identity.Tool.FullName(), tooLarge(l, size, files), remedy(l)))
			}
			before.MaxBytes, before.MaxFiles = max(l.MaxBytes, size), max(l.MaxFiles, files) // a call that removes files may begin above the limit
			ctx, stop := context.WithCancelCause(ctx)
			var watch sync.WaitGroup
			watch.Go(func() { watchLayer(ctx, stop, &before) })
			res := next(ctx, c)
			stop(nil)
			watch.Wait() // the caller can unmount the branch after this function returns
			size, files = l.Usage()
			var full *layerError
			switch {
			case res.Error != nil && errors.As(context.Cause(ctx), &full):
				res.Error = tool.Errorf(tool.PermissionDenied, "%s was stopped, because %s. %s",
					c.Identity.Tool.FullName(), tooLarge(l, full.size, full.files), remedy(l)).From(tool.SourceHost)
			case exceeds(l, size, files):
				call.NoteHint(res, fmt.Sprintf("Now %s. %s", tooLarge(l, size, files), remedy(l)))
			}
			return res
		}
	}}
}

// removes reports whether a call can only make a layer smaller.
func removes(c *call.Call) bool {
	switch e := c.Identity.Tool; {
	case e.Has(tool.RoleUndo):
		return true
	case e.Has(tool.RoleShell):
		return shellscript.OnlyRemoves(claim.Text(c.Decision.Arguments["command"]), shellscript.Options{
			Dir: c.Request.Session.Cwd,
		})
	}
	return false
}

func exceeds(l *call.Layer, size int64, files int) bool {
	return size > l.MaxBytes || files > l.MaxFiles
}

// tooLarge describes by how much a layer is too large, as a part of a sentence.
func tooLarge(l *call.Layer, size int64, files int) string {
	if size > l.MaxBytes {
		return fmt.Sprintf("the changes of the branch %s use %s, and the limit is %s", l.Name, megabytes(uint64(size)), megabytes(uint64(l.MaxBytes)))
	}
	if files == math.MaxInt { // see branch.Beyond
		return fmt.Sprintf("the directories that the branch %s made are nested too deeply to be counted", l.Name)
	}
	return fmt.Sprintf("the changes of the branch %s have %d files, and the limit is %d", l.Name, files, l.MaxFiles)
}

func remedy(l *call.Layer) string {
	return fmt.Sprintf("Remove files that the branch made, or undo. The operator can apply or discard the branch (toolhost branch apply %s), or raise the limit: workspace { limits { layer, files } }", l.Name)
}

// layerError is the cause of a context that the stage "layer" canceled.
type layerError struct {
	size  int64
	files int
}

func (*layerError) Error() string { return "the layer of the branch is too large" }

// watchLayer cancels a call if a layer is too large. It returns when ctx ends.
func watchLayer(ctx context.Context, stop context.CancelCauseFunc, l *call.Layer) {
	for pause := measureEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		if size, files := l.Usage(); exceeds(l, size, files) {
			stop(&layerError{size, files})
			return
		}
		pause = max(measureEvery, 50*time.Since(began))
	}
}
