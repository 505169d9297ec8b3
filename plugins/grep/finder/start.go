package finder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// place is where a call looks.
type place struct {
	ws    *workspace.Workspace
	call  *sdk.Call
	path  workspace.Path
	given string
	shown string // as results show it: relative to the working directory, or absolute
}

// at finds the place that a path names.
func at(call *sdk.Call, path string) (*place, error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	p := &place{ws: ws, call: call, given: path}
	if p.path, err = ws.Resolve(call.Cwd, path); err != nil {
		return nil, err
	}
	p.shown = p.path.RelTo(call.Cwd)
	// A link in the working directory keeps its name, as it was written.
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") {
		if clean := filepath.Clean(path); filepath.IsLocal(clean) {
			p.shown = clean
		}
	}
	return p, nil
}

// missing says that there is nothing at the place, and what the caller may have meant.
func (p *place) missing() error {
	parent := p.ws.Parent(p.path)
	hint := ""
	if names, err := p.ws.Names(parent, 10_000); err == nil {
		hint = suggest.DidYouMean(p.path.Base(), names)
	}
	if hint == "" {
		hint = " List " + parent.RelTo(p.call.Cwd) + " to see what is there."
	}
	return sdk.Errorf(tool.NotFound, "Path does not exist: %s.%s", p.given, hint).WithCause(fs.ErrNotExist)
}

// start opens the place for a walk. The caller closes its directory.
func (p *place) start() (walk.Start, error) {
	dir, err := p.ws.OpenDir(p.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return walk.Start{}, p.missing()
		}
		return walk.Start{}, err
	}
	return walk.Start{Dir: dir, Path: p.path.String(), Shown: p.shown}, nil
}

// tree is where a walk begins, with its index.
type tree struct {
	walk.Start
	at *index.Tree // nil: it has none
}

// tree opens the place for a walk. The caller closes its directory.
func (p *place) tree(f *finder) (*tree, error) {
	start, err := p.start()
	if err != nil || !f.indexed {
		return &tree{Start: start}, err
	}
	var key strings.Builder
	for _, r := range p.ws.Roots() {
		fmt.Fprintf(&key, "%q ", r.Path)
	}
	root := p.path.Root().Path
	open := func() (*os.File, error) {
		path, err := p.ws.Resolve("/", root)
		if err != nil {
			return nil, err
		}
		return p.ws.OpenDir(path)
	}
	return &tree{Start: start, at: f.indexes().Tree(root, key.String(), open, p.readRules)}, nil
}

// indexed does something with the index of the tree, if that is ready, and else with the
// files on the disk. key tells the options of calls apart. It returns how the index is.
func (t *tree) indexed(o walk.Options, key string, with func(*index.Snapshot) error, without func() error) (index.State, error) {
	if used, err := t.snapshot(o, key, with); used {
		return index.Ready, err
	}
	return t.unindexed(without)
}

// snapshot does something with the index of the tree, if that is ready; used tells whether
// it was.
func (t *tree) snapshot(o walk.Options, key string, with func(*index.Snapshot) error) (used bool, err error) {
	if t.at == nil {
		return false, nil
	}
	if o.Global != nil {
		key = fmt.Sprintf("%p %s", o.Global, key)
	}
	s := t.at.Snapshot(t.Start, o, fmt.Sprintf("%t %t %s", o.Hidden, o.NoIgnore, key))
	if s == nil {
		return false, nil
	}
	defer s.Release()
	return true, with(s)
}

// unindexed does something with the files on the disk, after which the index is made.
func (t *tree) unindexed(do func() error) (index.State, error) {
	if t.at == nil {
		return index.None, do()
	}
	state, _ := t.at.State()
	if state == index.Ready { // but not for this directory
		state = index.None
	}
	defer t.at.Scan()()
	return state, do()
}

// options are those of a walk that a call asks for.
func (p *place) options(hidden, noIgnore bool) walk.Options {
	o := walk.Options{Hidden: hidden, NoIgnore: noIgnore}
	if !noIgnore {
		o.Global = ignore.Global()
		o.ReadRules = p.readRules
	}
	return o
}

// readRules reads an ignore file by its path. Inside the roots any may be read. Above
// them, the ignore files of the directories that the roots lie in are read as well: they
// say what belongs to the tree and are shown to nobody.
func (p *place) readRules(path string) ([]byte, error) {
	var f *os.File
	name, err := p.ws.Resolve("/", path)
	switch {
	case err == nil:
		f, err = p.ws.Open(name)
	case p.aboveRoots(path):
		f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // #nosec G304 -- an ignore file, see above
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > walk.MaxRules {
		return nil, fs.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, walk.MaxRules))
}

// aboveRoots reports whether a path is that of an ignore file in a directory in which
// a root lies.
func (p *place) aboveRoots(path string) bool {
	for _, name := range []string{"/" + ignore.RipgrepFile, "/" + ignore.PlainFile, "/" + ignore.GitFile, "/.git/info/exclude", "/.git"} {
		dir, ok := strings.CutSuffix(path, name)
		for _, r := range p.ws.Roots() {
			if rel, in := (tool.Root{Path: dir + "/"}).Rel(r.Path); ok && in && (rel != "." || dir == "") {
				return true
			}
		}
	}
	return false
}

// watch tells the host how far a call has come, from its second second on. The function
// it gives ends that.
func watch(ctx context.Context, call *sdk.Call, title string, files *atomic.Int64, at func() (index.State, int64)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m := map[string]any{"files": files.Load()}
				if state, n := at(); state == index.Building {
					m["index"], m["indexed"] = state, n
				}
				call.Progress(title, m)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
