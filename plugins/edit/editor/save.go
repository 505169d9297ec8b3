package editor

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/validate"
)

// change is a change of a file that is not yet written.
type change struct {
	target *validate.Target
	name   string // path as displayed in results
	after  []byte // new content in UTF-8
	remove bool   // true if the file is removed
	// perm is the mode of a new file before the umask. The field "mode" is an exact mode. A zero value means
	// that the mode is not set.
	perm fs.FileMode
	mode *fs.FileMode
	// attributes contains the attributes of a renamed file. It is nil for other files.
	attributes *workspace.Attributes

	// diff returns the change as a unified diff. If the field is nil, the method save sets the field.
	diff func() string
	// told computes the slow part of the report. The method save calls it while the change is written. A
	// nil function is skipped.
	told func()

	// hidden means that the new content no longer shows the encoding of the file, so the next read cannot detect the
	// encoding.
	hidden bool

	// The following fields are results of the method save.
	written *workspace.Written // nil for a removed file
	effect  tool.Effect
	lost    string // the reason why the change cannot be undone
}

// oldText returns the old text. For a new file, the result is empty.
func (c *change) oldText() []byte {
	if c.target.Text == nil {
		return nil
	}
	return c.target.Text.Content
}

// note describes unusual circumstances of the write for the result.
func (c *change) note() string {
	out := ""
	if c.written != nil && c.written.InPlace != "" {
		out = " The file was overwritten in place, because " + c.written.InPlace + "."
	}
	out += refused(c.written)
	if c.hidden {
		out += fmt.Sprintf(" [note: the file is still encoded in %s, but has too little text now to detect this. Convert the file to UTF-8 before you change it again.]", c.target.Text.Encoding)
	}
	if c.lost != "" {
		out += " This change cannot be undone: " + c.lost + "."
	}
	return out
}

// refused lists attributes that could not be restored on a replaced file.
func refused(w *workspace.Written) string {
	if w == nil || len(w.Refused) == 0 {
		return ""
	}
	return " [note: some attributes of the file could not be kept: " + strings.Join(w.Refused, "; ") + ". An administrator can restore them.]"
}

// open locks a file and checks layers 2 to 5 of the validation. The returned function releases the lock. To
// check the other layers, the caller must call the target's method Read. The parameters "create" and "overwrite" are
// documented at [validate.File].
func (e *editor) open(ctx context.Context, call *sdk.Call, name string, create,
	overwrite bool) (c *change, unlock func(), err error) {
	return e.openWith(ctx, call, name, func(ws *workspace.Workspace) (*validate.Target, error) {
		return validate.Open(ctx, ws, call, call.Cwd, name, create, overwrite)
	})
}

// openWith locks a file and calls check, which checks layers 2 to 5.
func (e *editor) openWith(ctx context.Context, call *sdk.Call, name string,
	check func(*workspace.Workspace) (*validate.Target, error)) (c *change, unlock func(), err error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, nil, err
	}
	if unlock, err = e.lock(ctx, ws, call.Cwd, name); err != nil {
		return nil, nil, err
	}
	target, err := check(ws)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return &change{target: target, name: target.Path.RelTo(call.Cwd)}, unlock, nil
}

// lock locks files against other changes. It skips paths that cannot be resolved, because the validation reports them.
func (e *editor) lock(ctx context.Context, ws *workspace.Workspace, cwd string,
	names ...string) (unlock func(), err error) {
	var paths []workspace.Path
	for _, name := range names {
		if p, err := ws.Resolve(cwd, name); err == nil {
			paths = append(paths, p)
		}
	}
	return e.Lock(ctx, ws, paths...)
}

// save writes all changes atomically and records them as one step in the history.
func (e *editor) save(ctx context.Context, call *sdk.Call, changes ...*change) error {
	ws, err := call.Workspace()
	if err != nil {
		return err
	}
	m := commit.Commit{Session: call.SessionID, Tool: call.Tool, Title: call.Tool + " " + changes[0].name}
	if len(changes) > 1 {
		m.Title += " and " + plural(len(changes)-1, "other file")
	}
	for _, c := range changes {
		data, err := c.encoded()
		if err == nil {
			err = e.checkSize(c, data)
		}
		if err != nil {
			return err
		}
		if c.diff == nil {
			c.diff = sync.OnceValue(c.unified)
		}
		m.Steps = append(m.Steps, commit.Step{
			Path: c.target.Path, Before: c.target.Before, After: data, Remove: c.remove, Perm: c.perm, Mode: c.mode,
			Attributes: c.attributes,
		})
	}
	m.Meanwhile = func() {
		for _, c := range changes {
			c.diff()
			if c.told != nil {
				c.told()
			}
		}
	}
	done, err := e.Apply(ctx, ws, m)
	if err != nil {
		return conflicting(err)
	}
	for i, c := range changes {
		c.written, c.effect, c.lost = done.Written[i], done.Effects[i], done.Lost
	}
	return nil
}

// checkSize refuses a file that is larger than the operator permits. It checks the sizes before and after the change.
func (e *editor) checkSize(c *change, after []byte) error {
	size := len(after)
	if c.target.Before != nil {
		size = max(size, len(c.target.Before.Data))
	}
	if e.maxFile == 0 || int64(size) <= e.maxFile || c.remove {
		return nil
	}
	return validate.Refuse(validate.WrongType, tool.InvalidArguments, "%s has %s, and the largest file that may be changed or made has %s. Make a smaller file, or ask the operator to raise max_file_mb of the plugin edit.",
		c.name, text.FormatSize(int64(size)), text.FormatSize(e.maxFile))
}

// encoded returns the new text in the file's encoding.
func (c *change) encoded() ([]byte, error) {
	if c.target.Text == nil || c.remove {
		return c.after, nil
	}
	data, err := c.target.Text.Encode(c.after)
	if err != nil {
		return nil, tool.AsError(err).WithCode(validate.WrongType)
	}
	if t := c.target.Text; t.Detected() {
		now, err := text.Decode(data)
		c.hidden = err != nil || !bytes.Equal(now.Content, c.after)
	}
	return data, nil
}

// conflicting adds the code of the validation layer to the error of a conflict during the write.
func conflicting(err error) error {
	e := tool.AsError(err)
	if e.Kind == tool.Conflict {
		e = e.WithCode(validate.ModifiedSinceRead)
	}
	return e
}
