// Package validate implements the layers of checks for a change of a file. Each refusal has the number of its layer as
// its error code:
//
//  1. Nothing to change: the old text equals the new text.
//  2. The path is denied: it is outside of the roots, or not writable.
//  3. The file to create already exists.
//  4. The file does not exist.
//  5. The type of the file cannot be edited as text.
//  6. The session has not read the file.
//  7. The file was modified after the session read it.
//  8. The old text is not found, or cannot be replaced safely.
//  9. The old text is not unique.
//  10. The new text is incomplete: it contains a placeholder for omitted text.
//
// The host refuses a denied path with the code of layer 2 before it calls a tool. For a denied path, layer 2 therefore
// precedes layer 1, and the caller learns nothing else. In all other cases, the first layer that fails determines the
// error.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

// The numbers of the layers.
const (
	NothingToChange = iota + 1
	PathDenied
	FileExists
	FileMissing
	WrongType
	NotRead
	ModifiedSinceRead
	NotFound
	NotUnique
	Incomplete
)

// Refuse returns the error of a layer.
func Refuse(layer int, kind tool.Kind, format string, a ...any) error {
	return tool.Errorf(kind, format, a...).WithCode(layer)
}

// States returns the version of a file that the session has read.
type States interface {
	FileState(ctx context.Context, path string) (tool.FileState, bool, error)
}

// Target is a file to change. It has passed layers 2 to 5. After Read returns nil, it has also passed layers 6 and
// 7.
type Target struct {
	Path workspace.Path
	// Before is the file at the time of reading. It is nil if the file does not exist.
	Before *workspace.Snapshot
	// Text is the decoded content of the file. It is nil if the file does not exist.
	Text *text.Text

	known <-chan answer // receives the session's state of the file; nil if the file has no content
}

// Read checks layers 6 and 7. It waits for the session's state of the file and for the hash of the file. The caller
// must call it once, before it changes the file or reveals the content. Meanwhile, the caller can compute the new
// content in parallel.
func (t *Target) Read() error {
	if t.known == nil {
		return nil
	}
	state := <-t.known
	switch {
	case state.err != nil:
		return state.err
	case !state.known:
		return Refuse(NotRead, tool.Conflict, "File has not been read yet. Read it first before writing to it.")
	case state.Hash != t.Before.Hash(): // compare only the bytes and ignore the modification time
		return Refuse(ModifiedSinceRead, tool.Conflict, "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it.")
	}
	return nil
}

// File checks layers 2 to 7 for a path. If create is true, the file must be missing or empty. If overwrite is true,
// an existing file is also permitted.
func File(ctx context.Context, ws *workspace.Workspace, states States, cwd, name string, create,
	overwrite bool) (*Target, error) {
	t, err := Open(ctx, ws, states, cwd, name, create, overwrite)
	if err == nil {
		err = t.Read()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Open checks layers 2 to 5 for a path. The caller must check layers 6 and 7 with [Target.Read].
func Open(ctx context.Context, ws *workspace.Workspace, states States, cwd, name string, create,
	overwrite bool) (*Target, error) {
	return open(ctx, ws, states, cwd, name, create, overwrite, false)
}

// Notebook checks layers 2 to 5, as [Open] does, for an existing Jupyter notebook.
func Notebook(ctx context.Context, ws *workspace.Workspace, states States, cwd, name string) (*Target, error) {
	return open(ctx, ws, states, cwd, name, false, false, true)
}

func open(ctx context.Context, ws *workspace.Workspace, states States, cwd, name string, create, overwrite,
	notebook bool) (*Target, error) {
	p, err := Path(ws, cwd, name)
	if err != nil {
		return nil, err
	}
	known := ask(ctx, states, p)
	before, err := ws.ReadFile(p, workspace.MaxFileSize)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		return &Target{Path: p}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, Refuse(FileMissing, tool.NotFound, "File does not exist: %s.%s To create it, use write, or edit with an empty old_string.", name, near(ws, p))
	case errors.Is(err, fs.ErrPermission):
		return nil, coded(PathDenied, err)
	case err != nil:
		return nil, coded(WrongType, err)
	case create && !overwrite && len(before.Data) > 0:
		return nil, Refuse(FileExists, tool.Conflict, "File exists already and is not empty: %s. Give the text to replace as old_string, or use write to replace it all.", name)
	}
	switch isNotebook := strings.EqualFold(filepath.Ext(name), ".ipynb"); {
	case isNotebook && !notebook:
		return nil, Refuse(WrongType, tool.InvalidArguments, "%s is a Jupyter notebook and cannot be edited as text. Change its cells with notebook_edit.", name)
	case notebook && !isNotebook:
		return nil, Refuse(WrongType, tool.InvalidArguments, "%s is not a Jupyter notebook (.ipynb). Change it with edit.", name)
	}
	if text.Binary(before.Data) {
		return nil, Refuse(WrongType, tool.InvalidArguments, "%s is a binary file and cannot be edited as text. Change the file in the shell, with a program for its format.", name)
	}
	decoded, err := text.Decode(before.Data)
	if err != nil {
		return nil, coded(WrongType, fmt.Errorf("%s: %w", name, err))
	}
	if err := decoded.Editable(); err != nil {
		return nil, coded(WrongType, fmt.Errorf("%s: %w", name, err))
	}
	t := &Target{Path: p, Before: before, Text: decoded}
	if len(before.Data) > 0 {
		t.known = known
	}
	return t, nil
}

// answer contains the session's state of a file.
type answer struct {
	tool.FileState
	known bool
	err   error
}

// ask requests the session's state of a file in the background and returns a channel for the answer.
func ask(ctx context.Context, states States, p workspace.Path) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		var a answer
		a.FileState, a.known, a.err = states.FileState(ctx, p.String())
		out <- a
	}()
	return out
}

// Path checks that the path is in a writable root. This is the second layer of the validation of an edit.
func Path(ws *workspace.Workspace, cwd, name string) (workspace.Path, error) {
	p, err := ws.Resolve(cwd, name)
	if err != nil {
		return p, coded(PathDenied, err)
	}
	if !p.Writable() {
		return p, Refuse(PathDenied, tool.PermissionDenied, "%s is in the read-only root %s. Choose a path in a writable root, or make this root writable in the sandbox block of the configuration.", name, p.Root().Path)
	}
	return p, nil
}

// coded returns an error with the code of a layer.
func coded(layer int, err error) error { return tool.AsError(err).WithCode(layer) }

// near returns a suggestion of similar file names.
func near(ws *workspace.Workspace, p workspace.Path) string {
	const most = 5000
	names, err := ws.Names(ws.Parent(p), most)
	if err != nil {
		return ""
	}
	return suggest.DidYouMean(p.Base(), names)
}
