// Package listing implements the listing of a workspace's directory.
package listing

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

const (
	// maxEntries limits the number of listed entries.
	maxEntries = 100_000
	// batch is the number of entries to read between checks for cancellation.
	batch = 1024
)

// Listing is the result of listing a directory.
type Listing struct {
	// Entries are sorted by name, directories first.
	Entries []workspace.Entry
	// GivenUp means that there are more entries than listed.
	GivenUp bool
}

// Read lists the directory p, including hidden entries.
func Read(ctx context.Context, ws *workspace.Workspace, p workspace.Path) (*Listing, error) {
	return read(ctx, ws, p, maxEntries)
}

func read(ctx context.Context, ws *workspace.Workspace, p workspace.Path, most int) (*Listing, error) {
	l := &Listing{}
	found, err := l.list(ctx, ws, p, most)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		out := workspace.Entry{Name: e.Name(), Mode: e.Type()}
		switch info, err := ws.Lstat(p, e.Name()); {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			continue
		case err == nil:
			out.Mode, out.Size, out.Modified = info.Mode(), info.Size(), info.ModTime()
		}
		if out.Mode&fs.ModeSymlink != 0 {
			out.Target, _ = ws.Readlink(p, e.Name())
		}
		l.Entries = append(l.Entries, out)
	}
	return l, nil
}

// list reads a directory and sorts it by name, directories first.
func (l *Listing) list(ctx context.Context, ws *workspace.Workspace, p workspace.Path, most int) ([]fs.DirEntry, error) {
	opened, err := ws.OpenDir(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	f, err := cheap(opened)
	if err != nil {
		return nil, tool.Errorf(tool.ExecutionFailed, "Cannot list %s: %w. Try again.", p, err)
	}
	defer func() { _ = f.Close() }()
	var all []fs.DirEntry
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		some, err := f.ReadDir(min(batch, most-len(all)+1))
		all = append(all, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionFailed, "Cannot list %s: %w. Try again.", p, err)
		}
		if len(all) > most {
			all, l.GivenUp = all[:most], true
			break
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int {
		if a.IsDir() != b.IsDir() {
			if a.IsDir() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name(), b.Name())
	})
	return all, nil
}

// Lines formats the entries for a model, one per line.
func (l *Listing) Lines() []string {
	out := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		out = append(out, e.Line())
	}
	return out
}
