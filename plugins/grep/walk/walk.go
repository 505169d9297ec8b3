// Package walk implements a concurrent walk through a directory tree. The walk omits entries that ignore rules
// exclude and entries with hidden names.
//
// The walk never follows a symbolic link. It opens each entry from the directory where the walk began, either one
// path element after the other or with one system call that refuses links. Therefore a link that replaces a file or
// directory during the walk is never followed.
package walk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"toolhost.dev/plugins/grep/filetype"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/workers"
)

// Start is the directory at which a walk begins.
type Start struct {
	// Dir is the open directory. The walk does not close it.
	Dir *os.File
	// Path is the absolute path of the directory, without symbolic links.
	Path string
	// Shown is the path of the directory in results. It is absolute, or relative to the working directory. For the
	// working directory itself, it is ".".
	Shown string
	// Rel is the beginning of the paths that [Dir.Rel] returns. It is empty unless this walk is part of a larger
	// walk.
	Rel string
	// Rules contains the ignore rules of the directories above the start. If Rules is nil, the walk reads these
	// rules.
	Rules *ignore.Dir
}

// Options are the options of a walk.
type Options struct {
	Hidden bool // also visit hidden files
	// Dotted reports whether a hidden name is visited although Hidden is false. If Dotted is nil, no hidden name is
	// visited.
	Dotted   func(name string) bool
	NoIgnore bool // do not read ignore files
	// LinkToDir reports whether the symbolic link with the given absolute path leads to a directory. Globs treat such a
	// link as a directory. If LinkToDir is nil, globs treat no link as a directory.
	LinkToDir func(path string) bool
	// Closed reports whether a directory is visited without its contents. A nil Closed means that the walk visits
	// the contents of all directories.
	Closed func(name string) bool
	// Globs and Type select files. A nil field selects all files.
	Globs *ignore.Globs
	Type  *filetype.Type
	// Global contains the user's own ignore rules. They match the paths as displayed in results.
	Global *ignore.Rules
	// ReadRules reads an ignore file that is above the start or is a symbolic link. The path is absolute. If ReadRules
	// is nil, such files are ignored.
	ReadRules func(path string) ([]byte, error)
}

// Entry is one entry of a directory.
type Entry struct {
	Name string
	Type fs.FileMode // only the type bits
}

// Visit is a callback for every entry that is not excluded, including directories. Several goroutines call it at the
// same time. The argument "worker" is the number of the goroutine, less than workers.Number. The directory stays open
// until Visit returns.
type Visit func(worker int, d *Dir, e Entry)

// Skipped counts the entries that a walk excluded. An excluded directory counts as one entry, regardless of its
// contents.
type Skipped struct {
	Ignored    atomic.Int64 // entries excluded by an ignore rule
	Hidden     atomic.Int64 // entries excluded because their names are hidden
	Permission atomic.Int64 // directories without read permission
	Failed     atomic.Int64 // directories that could not be read for another reason
}

// Walk visits all entries below the start. It returns an error if ctx ends or if the start directory cannot be read.
// Other unreadable directories are only counted in skipped.
func Walk(ctx context.Context, s Start, o Options, skipped *Skipped, visit Visit) error {
	w := &walker{start: s, opts: o, skipped: skipped, visit: visit}
	first := &task{dir: &Dir{w: w, rel: ".", path: s.Path, shown: ShownPrefix(s.Shown), rules: s.Rules}}
	if !o.NoIgnore && s.Rules == nil {
		first.dir.rules = w.opts.rules().Parents(s.Path)
	}
	if err := first.dir.open(); err != nil {
		return err
	}
	w.tasks.run(ctx, workers.Number(), first, w.do)
	return ctx.Err()
}

// ShownPrefix returns the beginning of the displayed paths of a directory's entries. The argument "shown" is the
// displayed path of the directory.
func ShownPrefix(shown string) string {
	if shown == "." || shown == "" {
		return ""
	}
	return strings.TrimSuffix(shown, "/") + "/"
}

type walker struct {
	start   Start
	opts    Options
	skipped *Skipped
	visit   Visit
	tasks   queue
}

// task is a unit of work of the walk: a directory to list, or some entries of a listed directory to visit.
type task struct {
	dir     *Dir
	entries []Entry // nil if the directory is not listed yet
}

// chunk is the number of entries that one task visits.
const chunk = 32

func (w *walker) do(ctx context.Context, worker int, t *task) {
	if t.entries == nil {
		if err := t.dir.open(); err != nil {
			w.failed(err)
			return
		}
		t.entries = w.list(ctx, t.dir)
	}
	defer t.dir.close()
	for _, e := range t.entries {
		if ctx.Err() != nil {
			return
		}
		w.visit(worker, t.dir, e)
	}
}

// list reads a directory and queues tasks for its subdirectories and entries. It returns the remaining entries, which
// the caller must visit.
func (w *walker) list(ctx context.Context, d *Dir) []Entry {
	entries, err := d.entries(ctx)
	if err != nil {
		w.failed(err)
	}
	if !w.opts.NoIgnore {
		d.rules = w.opts.rules().Rules(d.rules, d.file, d.path, entries)
	}
	keep := entries[:0]
	var later []*task
	for _, e := range entries {
		if !w.wanted(d, e) {
			continue
		}
		keep = append(keep, e)
		if e.Type.IsDir() && !w.opts.closed(e.Name) {
			later = append(later, &task{dir: d.child(e.Name)})
		}
	}
	for len(keep) > chunk {
		rest := keep[len(keep)-chunk:]
		keep = keep[:len(keep)-chunk]
		d.refs.Add(1)
		later = append(later, &task{dir: d, entries: rest})
	}
	slices.Reverse(later) // reverse the order, because the queue returns the newest task first
	w.tasks.push(later)
	return keep
}

func (w *walker) failed(err error) { w.skipped.Count(err) }

// Count adds a directory that could not be read to the counter for the error.
func (s *Skipped) Count(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // a directory that was removed during the walk is not counted
	case errors.Is(err, fs.ErrPermission):
		s.Permission.Add(1)
	default:
		s.Failed.Add(1)
	}
}

// Add adds the counters of another walk to these counters.
func (s *Skipped) Add(o *Skipped) {
	s.Ignored.Add(o.Ignored.Load())
	s.Hidden.Add(o.Hidden.Load())
	s.Permission.Add(o.Permission.Load())
	s.Failed.Add(o.Failed.Load())
}

func (o *Options) closed(name string) bool { return o.Closed != nil && o.Closed(name) }

func (o *Options) rules() RuleReader { return RuleReader{Read: o.ReadRules} }

// wanted reports whether an entry must be visited.
func (w *walker) wanted(d *Dir, e Entry) bool {
	shown, isDir := d.shown+e.Name, e.Type.IsDir()
	if e.Type&fs.ModeSymlink != 0 && w.opts.LinkToDir != nil {
		isDir = w.opts.LinkToDir(d.Path(e.Name))
	}
	if want, decided := w.opts.Selected(shown, isDir); decided {
		return want
	}
	v := ignore.None
	if d.rules != nil && !w.opts.NoIgnore {
		v = d.rules.Match(d.Path(e.Name), isDir)
	}
	return w.opts.Wanted(e.Name, shown, isDir, v, d.rules.InRepository(), w.skipped)
}

// IsHidden reports whether a name is hidden. A hidden name begins with a dot and does not end with a dot. ripgrep and
// fd apply the same rule.
func IsHidden(name string) bool { return name[0] == '.' && name[len(name)-1] != '.' }

// Selected reports whether the globs of a call include an entry. If the result "decided" is false, the globs do not
// decide. In this case, the name and the ignore rules decide.
func (o *Options) Selected(shown string, isDir bool) (want, decided bool) {
	v := o.Globs.Match(shown, isDir)
	return v == ignore.Include, v != ignore.None
}

// Wanted reports whether an entry must be visited. The argument "v" is the verdict of the ignore files. If Wanted
// excludes the entry, it counts the reason. Hidden names are visited if they match Type or if a rule includes them.
func (o *Options) Wanted(name, shown string, isDir bool, v ignore.Verdict, inRepository bool, skipped *Skipped) bool {
	switch {
	case o.NoIgnore:
		v = ignore.None
	case v == ignore.None && inRepository:
		v = o.Global.Match(shown, isDir)
	}
	if v == ignore.Ignore {
		skipped.Ignored.Add(1)
		return false
	}
	if o.Type != nil && !isDir {
		return o.Type.Match(name)
	}
	if v == ignore.None && !o.Hidden && IsHidden(name) && (o.Dotted == nil || !o.Dotted(name)) {
		skipped.Hidden.Add(1)
		return false
	}
	return true
}
