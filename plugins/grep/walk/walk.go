// Package walk implements the walk through a directory tree, several directories at a time. It
// skips what ignore rules and hidden names exclude.
//
// It never follows a symbolic link. Everything is opened from the directory where the walk began,
// step by step or in one call that refuses links. So a link that replaces a file or directory
// meanwhile leads nowhere.
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

// Start is where a walk begins.
type Start struct {
	// Dir is the directory, open. The walk does not close it.
	Dir *os.File
	// Path is its absolute path without symbolic links.
	Path string
	// Shown is how it is called in results: relative to the working directory, "." for
	// that itself, or absolute.
	Shown string
	// Rel is what the paths that [Dir.Rel] gives begin with, for a walk that is a part of
	// a larger one; empty: nothing.
	Rel string
	// Rules are those of the directories above, if they are known.
	Rules *ignore.Dir
}

// Options of a walk.
type Options struct {
	Hidden bool // take hidden files too
	// Dotted reports whether a hidden name is wanted nonetheless; nil means that none is.
	Dotted   func(name string) bool
	NoIgnore bool // do not read ignore files
	// Closed reports whether a directory is visited without what is in it; nil means that none is.
	Closed func(name string) bool
	// Globs and Type say which files are wanted; nil means all.
	Globs *ignore.Globs
	Type  *filetype.Type
	// Global are the user's own ignore rules, for paths as they are shown.
	Global *ignore.Rules
	// ReadRules reads an ignore file at an absolute path: one above the start, or one
	// that is a symbolic link. nil: such files have no rules.
	ReadRules func(path string) ([]byte, error)
}

// Entry is something found in a directory.
type Entry struct {
	Name string
	Type fs.FileMode // the type bits
}

// Visit is called for every entry that is not left out, directories included, by
// several goroutines at a time; worker is the number of the goroutine, below workers.Number.
// The directory is open until it returns.
type Visit func(worker int, d *Dir, e Entry)

// Skipped counts what a walk left out. A directory counts as one, whatever is in it.
type Skipped struct {
	Ignored    atomic.Int64 // by an ignore rule
	Hidden     atomic.Int64 // by its name
	Permission atomic.Int64 // directories that may not be read
	Failed     atomic.Int64 // directories that could not be read otherwise
}

// Walk visits everything beneath the start. The error is the end of ctx, or says that
// the start cannot be read; of other directories that cannot be, it keeps count.
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

// ShownPrefix returns what is in front of the entries of a directory that is shown like this.
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

// task is a directory to list, or a part of its entries to visit.
type task struct {
	dir     *Dir
	entries []Entry // nil: the directory is not listed yet
}

// chunk is the number of entries visited in one task.
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

// list reads a directory and hands out what is beneath it. It returns the entries that
// the caller is to visit.
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
	slices.Reverse(later) // the queue's last is taken first
	w.tasks.push(later)
	return keep
}

func (w *walker) failed(err error) { w.skipped.Count(err) }

// Count counts a directory that could not be read because of an error.
func (s *Skipped) Count(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // it vanished: as if it had never been
	case errors.Is(err, fs.ErrPermission):
		s.Permission.Add(1)
	default:
		s.Failed.Add(1)
	}
}

// Add adds the counts of another walk.
func (s *Skipped) Add(o *Skipped) {
	s.Ignored.Add(o.Ignored.Load())
	s.Hidden.Add(o.Hidden.Load())
	s.Permission.Add(o.Permission.Load())
	s.Failed.Add(o.Failed.Load())
}

func (o *Options) closed(name string) bool { return o.Closed != nil && o.Closed(name) }

func (o *Options) rules() RuleReader { return RuleReader{Read: o.ReadRules} }

// wanted decides about an entry.
func (w *walker) wanted(d *Dir, e Entry) bool {
	shown := d.shown + e.Name
	if want, decided := w.opts.Selected(shown, e.Type.IsDir()); decided {
		return want
	}
	v := ignore.None
	if d.rules != nil && !w.opts.NoIgnore {
		v = d.rules.Match(d.Path(e.Name), e.Type.IsDir())
	}
	return w.opts.Wanted(e.Name, shown, e.Type.IsDir(), v, d.rules.InRepository(), w.skipped)
}

// IsHidden reports whether a name is a hidden one: it begins with a dot. As ripgrep and fd
// have it, one that ends with a dot, too, is none.
func IsHidden(name string) bool { return name[0] == '.' && name[len(name)-1] != '.' }

// Selected reports whether the globs of a call want an entry, or do not, or leave that
// to its name and the ignore rules: they have the last word.
func (o *Options) Selected(shown string, isDir bool) (want, decided bool) {
	v := o.Globs.Match(shown, isDir)
	return v == ignore.Include, v != ignore.None
}

// Wanted decides about an entry on which the ignore files of its directory have a
// verdict, and counts why it is not wanted. A file of the wanted type, or one that a
// rule asks for, may be hidden.
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
