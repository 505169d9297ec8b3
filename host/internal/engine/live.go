package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/watch"
)

// live is what a host does on its own, and for other processes.
type live struct {
	began        time.Time
	files        files
	server       *control.Server // nil if no process is answered
	background   sync.WaitGroup
	first        *time.Timer
	end          context.CancelFunc // ends the checks of health
	reconfigured chan struct{}      // has a token after the configuration changed
}

// files watches the files that the configuration depends on.
type files struct {
	mu      sync.Mutex
	watcher *watch.Watcher // nil if nothing is watched
}

// goLive starts what a live host does. Calls work without it, so a failure is only a problem.
func (e *Engine) goLive() {
	e.live.began = time.Now()
	ctx, end := context.WithCancel(context.Background())
	e.live.end, e.live.reconfigured = end, make(chan struct{}, 1)
	e.live.background.Go(func() { e.watchHealth(ctx) })
	if err := e.watchFiles(e.Current().Config); err != nil {
		e.problemf("%v. Use toolhost plugin reload.", err)
	}
	// A file may have changed between being read and being watched. A host that ends at once need not look.
	if w := e.live.files.watcher; w != nil {
		e.live.first = time.AfterFunc(time.Second, w.Check)
	}
	// Last, because other processes must not find a host that is not set up.
	if dir := e.home.Control(); dir != "" {
		server, err := control.Listen(dir, e.control)
		if err != nil {
			e.problemf("toolhost plugin reload and toolhost status do not reach this host: %v.", err)
		}
		e.live.server = server
	}
}

func (l *live) close() {
	if l.end != nil {
		l.end()
	}
	if l.first != nil {
		l.first.Stop()
	}
	if l.files.watcher != nil {
		l.files.watcher.Close()
	}
	if l.server != nil {
		l.server.Close()
	}
	l.background.Wait()
}

// configured follows another configuration.
func (e *Engine) configured(cfg *config.Config) {
	if err := e.watchFiles(cfg); err != nil {
		e.opts.Log.Warn("changes of files are not watched", "why", err)
	}
	select {
	case e.live.reconfigured <- struct{}{}:
	default:
	}
}

// watchFiles watches the files that a configuration depends on, if the configuration wants that.
func (e *Engine) watchFiles(cfg *config.Config) error {
	if !e.opts.Live || !cfg.Reload.Watch {
		return nil
	}
	w := &e.live.files
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watcher == nil {
		watcher, err := watch.New(e.opts.Log, e.diskChanged)
		if err != nil {
			return err
		}
		w.watcher = watcher
	}
	var paths, dirs []string
	add := func(list *[]string, path string) {
		if abs, err := filepath.Abs(path); err == nil {
			*list = append(*list, abs)
		}
	}
	source := e.reloader.Source
	for _, path := range source.Files(cfg) {
		add(&paths, path)
	}
	if source.Path != "" {
		add(&paths, source.Path)
		if roots.IsDir(source.Path) {
			add(&dirs, source.Path)
		}
	}
	w.watcher.Set(paths, dirs)
	return nil
}

// diskChanged reloads what changed. It does not wait for that.
func (e *Engine) diskChanged() {
	if !e.Current().Config.Reload.Watch {
		return
	}
	e.reloader.DiskChanged(func() {
		e.live.background.Go(func() {
			if _, err := e.reloader.Reload(context.Background(), reload.Automatic); err != nil {
				e.opts.Log.Warn("nothing was reloaded", "why", err)
			}
		})
	})
}

// control answers another process.
func (e *Engine) control(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case control.OpEnable:
		var a control.EnableArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return nil, e.reloader.SetEnabled(a.Name, a.On)
	case control.OpRenew:
		e.reloader.Renew()
		return e.reloader.Reload(ctx, reload.Options{}) // a version may have been refused for lack of approval
	case control.OpStatus:
		return e.remoteStatus(), nil
	case control.OpStats:
		return e.remoteStats(), nil
	case control.OpPlan:
		return e.reloader.Plan(ctx)
	case control.OpReload:
		var opts reload.Options
		if err := json.Unmarshal(args, &opts); err != nil {
			return nil, err
		}
		return e.reloader.Reload(ctx, opts)
	}
	return nil, fmt.Errorf("this host has version %s, which does not support %q: restart it to run the installed version", Version, op)
}
