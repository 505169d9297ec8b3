package editor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/validate"
)

// change is a file on its way to the disk.
type change struct {
	target *validate.Target
	name   string // as the caller named it
	after  []byte // UTF-8
	remove bool   // the file goes
	perm   fs.FileMode

	data    []byte // what is written
	written *workspace.Written
	removed bool
}

// before gives the text as it was; empty for a new file.
func (c *change) before() []byte {
	if c.target.Text == nil {
		return nil
	}
	return c.target.Text.Content
}

// maxUndo is the size in bytes up to which the content before a change goes to the host,
// so that it can be undone. A result has to fit into one message.
const maxUndo = 16 << 20

// effect reports the change to the host.
func (c *change) effect() tool.Effect {
	var e tool.Effect
	if c.removed {
		b := c.target.Before
		hash := b.Hash
		e = tool.Effect{Operation: tool.OpDelete, File: b.State(), HashBefore: &hash, ContentBefore: b.Data}
	} else {
		e = c.written.Effect()
	}
	if len(e.ContentBefore) > maxUndo {
		e.ContentBefore = nil
	}
	return e
}

// save writes changes as one: all of them or none. When one cannot be written, those
// before it are put back.
func save(ctx context.Context, ws *workspace.Workspace, changes ...*change) error {
	for _, c := range changes {
		if err := c.encode(); err != nil {
			return err
		}
	}
	for i, c := range changes {
		if err := c.write(ctx, ws); err != nil {
			return restore(context.WithoutCancel(ctx), ws, changes[:i], err)
		}
	}
	return nil
}

// encode gives the text the file's encoding.
func (c *change) encode() error {
	c.data = c.after
	if c.target.Text == nil || c.remove {
		return nil
	}
	var err error
	if c.data, err = c.target.Text.Encode(c.after); err != nil {
		return tool.AsError(err).WithCode(validate.WrongType)
	}
	return nil
}

func (c *change) write(ctx context.Context, ws *workspace.Workspace) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.remove {
		err = ws.Remove(ctx, c.target.Path, c.target.Before)
		c.removed = err == nil
	} else {
		opt := workspace.WriteOptions{Expect: c.target.Before, New: c.target.Before == nil, Parents: true, Perm: c.perm}
		c.written, err = ws.WriteFile(ctx, c.target.Path, c.data, opt)
	}
	if err == nil {
		return nil
	}
	e := tool.AsError(err)
	if e.Kind == tool.Conflict {
		e = e.WithCode(validate.ModifiedSinceRead)
	}
	return e
}

// restore puts back what was written, and says so in the error that made it necessary.
func restore(ctx context.Context, ws *workspace.Workspace, done []*change, why error) error {
	if len(done) == 0 {
		return why
	}
	var stuck []string
	for i := len(done) - 1; i >= 0; i-- {
		if err := done[i].undo(ctx, ws); err != nil {
			stuck = append(stuck, fmt.Sprintf("%s (%v)", done[i].name, err))
		}
	}
	e := tool.AsError(why)
	if len(stuck) > 0 {
		return tool.Errorf(e.Kind, "%s The files written before it could not all be put back: %s. Look at them before going on.", e.Message, strings.Join(stuck, ", ")).WithCode(e.Code).WithCause(why)
	}
	return tool.Errorf(e.Kind, "%s The other files of the change were put back; nothing is changed.", e.Message).WithCode(e.Code).WithCause(why)
}

// undo puts the file back as it was, unless somebody else has changed it since.
func (c *change) undo(ctx context.Context, ws *workspace.Workspace) error {
	if c.removed {
		_, err := ws.WriteFile(ctx, c.target.Path, c.target.Before.Data, workspace.WriteOptions{New: true, Perm: c.target.Before.Mode.Perm()})
		return err
	}
	now, err := ws.ReadFile(c.target.Path, workspace.MaxFileSize)
	if err != nil {
		return err
	}
	if now.Hash != c.written.State.Hash {
		return errors.New("it was changed meanwhile")
	}
	if c.written.Created {
		return ws.Remove(ctx, c.target.Path, now)
	}
	_, err = ws.WriteFile(ctx, c.target.Path, c.target.Before.Data, workspace.WriteOptions{Expect: now})
	return err
}
