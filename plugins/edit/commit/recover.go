package commit

import (
	"context"
	"fmt"
	"os"

	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/history"
)

// recover completes or reverts changes that a killed process left unfinished. If all files of a change are written,
// recover completes the change. Otherwise it reverts the change. No other process changes the files, because the caller
// has locked them.
func (c *Committer) recover(ctx context.Context, ws *workspace.Workspace, paths []workspace.Path) error {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = p.String()
	}
	left, err := c.History.Unfinished(ctx, names...)
	if err != nil {
		return ctx.Err() // ignore an error of the history, because the next change reports it
	}
	for _, change := range left {
		if err := c.recoverOne(context.WithoutCancel(ctx), ws, change); err != nil {
			fmt.Fprintf(os.Stderr, "change %d (%s) was interrupted and could not be completed: %v\n", change.ID, change.Title, err)
		}
	}
	return nil
}

func (c *Committer) recoverOne(ctx context.Context, ws *workspace.Workspace, change *history.Change) error {
	through := true
	var begun []int
	targets := make([]workspace.Path, len(change.Files))
	for i, f := range change.Files {
		p, err := ws.Resolve("/", f.Path)
		if err != nil || p.String() != f.Path {
			return nil //nolint:nilerr // the file is outside of the roots; another call will recover the change
		}
		targets[i] = p
		snap, err := Current(ws, p)
		if err != nil {
			return err
		}
		if Matches(snap, f.After) {
			begun = append(begun, i)
		} else {
			through = false
		}
	}
	if through {
		for i := range change.Files {
			lookUpMode(ws, targets[i], &change.Files[i])
		}
		return c.History.Finish(ctx, change)
	}
	for _, i := range begun {
		f := &change.Files[i]
		if err := c.History.Load(ctx, &f.Before); err != nil {
			return err
		}
		if err := restore(ctx, ws, targets[i], f.After, f.Before); err != nil {
			return err
		}
	}
	RemoveDirs(ws, change.Dirs)
	return c.History.Abandon(ctx, change)
}
