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
	"toolhost.dev/plugins/grep/query"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// place is the file or directory that a call searches.
type place struct {
	ws    *workspace.Workspace
	call  *sdk.Call
	path  workspace.Path
	given string
	shown string // path as results display it: relative to the working directory, or absolute
}

// at resolves a path and returns the place to search.
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
	// If the path is a symbolic link in the working directory, results display the name of the link.
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") {
		if clean := filepath.Clean(path); filepath.IsLocal(clean) {
			p.shown = clean
		}
	}
	return p, nil
}

// missing returns a NotFound error that suggests similar paths.
func (p *place) missing() error {
	parent := p.ws.Parent(p.path)
	hint := ""
	if names, err := p.ws.Names(parent, 10_000); err == nil {
		hint = suggest.DidYouMean(p.path.Base(), names)
	}
	if hint == "" {
		hint = " List " + parent.RelTo(p.call.Cwd) + " to see its content."
	}
	return sdk.Errorf(tool.NotFound, "Path does not exist: %s.%s", p.given, hint).WithCause(fs.ErrNotExist)
}

// start opens the place as the start of a walk. The caller must close the directory of the result.
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

// tree is the start of a walk together with the index of the tree.
type tree struct {
	walk.Start
	at *index.Tree // nil if the configuration has no index
}

// tree opens the place as the start of a walk with an index. The caller must close the directory of the result.
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

// indexed searches a tree. If the index is ready, it passes a snapshot of the index to the callback "with".
// Otherwise it calls the callback "without", which must search the disk. The key identifies the options of the call.
// The result is the state of the index.
func (t *tree) indexed(o walk.Options, key string, with func(*index.Snapshot) error,
	without func() error) (index.State, error) {
	if used, err := t.snapshot(o, key, with); used {
		return index.Ready, err
	}
	return t.unindexed(without)
}

// snapshot calls f with a snapshot if the index is ready. The result "used" reports whether f was called.
func (t *tree) snapshot(o walk.Options, key string, f func(*index.Snapshot) error) (used bool, err error) {
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
	return true, f(s)
}

// unindexed calls the function "do", which must search the disk. Afterwards it allows the index to be built.
func (t *tree) unindexed(do func() error) (index.State, error) {
	if t.at == nil {
		return index.None, do()
	}
	state, _ := t.at.State()
	if state == index.Ready { // the index is ready but does not contain this directory
		state = index.None
	}
	defer t.at.Scan()()
	return state, do()
}

// follow opens the target of a symbolic link. It follows links only within the roots.
func (p *place) follow(link string) (*query.Target, error) {
	to, err := p.ws.Resolve("/", link)
	if err != nil {
		return nil, err
	}
	open := p.ws.Open
	if to.IsDir() {
		open = p.ws.OpenDir
	}
	f, err := open(to)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &query.Target{File: f, Info: info, Path: to.String()}, nil
}

// linkToDir reports whether a symbolic link leads to a directory within the roots.
func (p *place) linkToDir(link string) bool {
	to, err := p.ws.Resolve("/", link)
	return err == nil && to.IsDir()
}

// options returns the options for the walk of a call.
func (p *place) options(hidden, noIgnore bool) walk.Options {
	o := walk.Options{Hidden: hidden, NoIgnore: noIgnore}
	if !noIgnore {
		o.Global = ignore.Global()
		o.ReadRules = p.readRules
	}
	return o
}

// readRules reads an ignore file. Inside the roots, any file can be read. Above the roots, only ignore files of
// directories that contain a root can be read. The ignore files decide which files belong to the tree. No result
// contains their content.
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

// aboveRoots reports whether a path is the path of an ignore file in a directory above a root.
func (p *place) aboveRoots(path string) bool {
	for _, name := range []string{"/" + ignore.RipgrepFile, "/" + ignore.PlainFile, "/" + ignore.GitFile,
		"/.git/info/exclude", "/.git"} {
		dir, ok := strings.CutSuffix(path, name)
		for _, r := range p.ws.Roots() {
			if rel, in := (tool.Root{Path: dir + "/"}).Rel(r.Path); ok && in && (rel != "." || dir == "") {
				return true
			}
		}
	}
	return false
}

// watch reports the progress of a call to the host every second. The caller must call the function "stop" at the end of
// the call.
func watch(ctx context.Context, call *sdk.Call, title string, files *atomic.Int64,
	at func() (index.State, int64)) (stop func()) {
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
