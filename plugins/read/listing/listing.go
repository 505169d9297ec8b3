// Package listing lists directories of a workspace.
package listing

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

const (
	// defaultExamine is Options.Examine if it is not set.
	defaultExamine = 100_000
	// maxDepth bounds the nesting; each level costs a step for every look below it.
	maxDepth = 64
	// batch is how many entries are read before looking whether the call was canceled.
	batch = 1024
)

// Options say what is listed. The zero value lists everything in one directory but hidden entries.
type Options struct {
	// Recursive goes into subdirectories, not through symbolic links.
	Recursive bool
	// Pattern is a glob: of the name or, with a slash in it, of the path beneath the
	// listed directory. Empty: everything.
	Pattern string
	// Hidden takes in names that begin with a dot.
	Hidden bool
	// Limit is the number of entries given; others are counted. 0: no limit.
	Limit int
	// Examine bounds the entries looked at; 0: 100 000.
	Examine int
}

// Entry is one file, directory or other thing.
type Entry struct {
	Name string
	// Path is absolute; Rel is beneath the listed directory.
	Path, Rel string
	// Type is file, directory, symlink, fifo, socket or device.
	Type     string
	Size     int64
	Modified time.Time
	// Target is what a symbolic link says.
	Target string
}

// Listing is what was found.
type Listing struct {
	// Entries are in order: directories before the rest, by name, each followed by
	// what is in it.
	Entries []Entry
	// Total counts the entries that there are, listed or not.
	Total int
	// GivenUp: there were too many entries to look at all of them; Total is what was seen.
	GivenUp bool
	// Hidden counts the entries left out because their name begins with a dot.
	Hidden int
	// Skipped are directories that were not gone into, and why.
	Skipped []string
}

// metadata are directories of version control systems. They are listed, but what
// is in them is listed only when asked for itself.
var metadata = []string{".git", ".hg", ".svn", ".jj"}

// Read lists the directory p.
func Read(ctx context.Context, ws *workspace.Workspace, p workspace.Path, opt Options) (*Listing, error) {
	if opt.Pattern != "" && !doublestar.ValidatePattern(opt.Pattern) {
		return nil, tool.Errorf(tool.InvalidArguments, "The pattern %q is not a valid glob: a bracket or brace is not closed, or a backslash is last. Correct it; to match such a character itself, put a backslash before it.", opt.Pattern)
	}
	if opt.Examine == 0 {
		opt.Examine = defaultExamine
	}
	w := walk{ctx: ctx, ws: ws, opt: opt, out: &Listing{}}
	if err := w.dir(p, "", 1); err != nil {
		return nil, err
	}
	return w.out, nil
}

type walk struct {
	ctx  context.Context
	ws   *workspace.Workspace
	opt  Options
	out  *Listing
	seen int
}

func (w *walk) dir(p workspace.Path, rel string, depth int) error {
	entries, err := w.entries(p)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !w.opt.Hidden && strings.HasPrefix(e.Name(), ".") {
			w.out.Hidden++
			continue
		}
		at := path.Join(rel, e.Name())
		if w.matches(e.Name(), at) {
			w.out.Total++
			if w.opt.Limit == 0 || len(w.out.Entries) < w.opt.Limit {
				w.add(p, e, at)
			}
		}
		if w.opt.Recursive && e.IsDir() {
			if err := w.enter(p, e, at, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter goes into a subdirectory. One that cannot be read, or is gone by now, does
// not end the listing.
func (w *walk) enter(p workspace.Path, e fs.DirEntry, at string, depth int) error {
	switch {
	case w.out.GivenUp:
		return nil
	case slices.Contains(metadata, e.Name()):
		w.out.Skipped = append(w.out.Skipped, at+" (version control)")
		return nil
	case depth >= maxDepth:
		w.out.Skipped = append(w.out.Skipped, at+" (nested too deep)")
		return nil
	}
	child, err := w.ws.Entry(p, e)
	if err == nil {
		err = w.dir(child, at, depth+1)
	}
	if err != nil && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	switch e := tool.AsError(err); {
	case err == nil, e.Kind == tool.NotFound:
	case e.Kind == tool.PermissionDenied:
		w.out.Skipped = append(w.out.Skipped, at+" (permission denied)")
	default:
		w.out.Skipped = append(w.out.Skipped, at+" ("+e.Message+")")
	}
	return nil
}

// entries reads a directory in order: subdirectories first, then by name.
func (w *walk) entries(p workspace.Path) ([]fs.DirEntry, error) {
	opened, err := w.ws.OpenDir(p)
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
		if w.ctx.Err() != nil {
			return nil, context.Cause(w.ctx)
		}
		some, err := f.ReadDir(min(batch, w.opt.Examine-w.seen+1))
		all = append(all, some...)
		w.seen += len(some)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionFailed, "Cannot list %s: %w. Try again.", p, err)
		}
		if w.seen > w.opt.Examine {
			w.out.GivenUp = true
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

func (w *walk) matches(name, rel string) bool {
	if w.opt.Pattern == "" {
		return true
	}
	if !strings.Contains(w.opt.Pattern, "/") {
		rel = name
	}
	ok, err := doublestar.Match(w.opt.Pattern, rel)
	return ok && err == nil
}

func (w *walk) add(p workspace.Path, e fs.DirEntry, rel string) {
	info, err := w.ws.Lstat(p, e.Name())
	if err != nil { // gone by now
		w.out.Total--
		return
	}
	out := Entry{Name: e.Name(), Path: filepath.Join(p.String(), e.Name()), Rel: rel, Type: typeName(info.Mode()), Size: info.Size(), Modified: info.ModTime()}
	if out.Type == "symlink" {
		out.Target, _ = w.ws.Readlink(p, e.Name())
	}
	w.out.Entries = append(w.out.Entries, out)
}

func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "file"
}

// Lines writes the entries for a model, one a line: directories with a slash at
// the end, files with size and time, links with where they lead.
func (l *Listing) Lines() []string {
	out := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		name := printable(e.Rel)
		switch e.Type {
		case "directory":
			out = append(out, name+"/")
		case "symlink":
			out = append(out, name+" -> "+printable(e.Target))
		case "file":
			out = append(out, name+"  "+workspace.FormatSize(e.Size)+"  "+e.Modified.UTC().Format("2006-01-02 15:04"))
		default:
			out = append(out, name+"  ("+e.Type+")")
		}
	}
	return out
}
