// Package listing lists the entries of a directory in a workspace.
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
	// maxEntries is the maximum number of listed entries.
	maxEntries = 100_000
	// batch is the number of entries that are read between two checks of the context.
	batch = 1024
)

// Listing is the result of listing a directory.
type Listing struct {
	// Entries contains the entries, sorted by name with directories first.
	Entries []workspace.Entry
	// GivenUp is true if the directory has more entries than Entries contains.
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
		case errors.Is(err, fs.ErrNotExist): // skip an entry that another process has removed
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

// list reads a directory. It sorts the entries by name with directories first.
func (l *Listing) list(ctx context.Context, ws *workspace.Workspace, p workspace.Path,
	most int) ([]fs.DirEntry, error) {
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

// Lines formats the entries for a language model, one per line.
func (l *Listing) Lines() []string {
	out := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		out = append(out, e.Line())
	}
	return out
}
