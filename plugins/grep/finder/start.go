package finder

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"toolhost.dev/plugins/grep/ignore"
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
			if ok && strings.HasPrefix(r.Path, dir+"/") {
				return true
			}
		}
	}
	return false
}

// watch tells the host how far a call has come, from its second second on. The function
// it gives ends that.
func watch(ctx context.Context, call *sdk.Call, title string, files *atomic.Int64) (stop func()) {
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
				call.Progress(title, map[string]any{"files": files.Load()})
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
