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

// live holds the background tasks of a host, and the server that answers requests of other processes.
type live struct {
	began        time.Time
	files        files
	server       *control.Server // nil if the host does not answer other processes
	background   sync.WaitGroup
	first        *time.Timer
	end          context.CancelFunc // cancels the health checks
	reconfigured chan struct{}      // receives a value after a change of the configuration
}

// files holds the watcher of the configuration's files.
type files struct {
	mu      sync.Mutex
	watcher *watch.Watcher // nil if the host does not watch files
}

// goLive starts the background tasks of the host. A failure is only recorded as a problem, because calls also work
// without these tasks.
func (e *Engine) goLive() {
	e.live.began = time.Now()
	ctx, end := context.WithCancel(context.Background())
	e.live.end, e.live.reconfigured = end, make(chan struct{}, 1)
	e.live.background.Go(func() { e.watchHealth(ctx) })
	e.live.background.Go(e.locks.Sweep)
	e.live.background.Go(func() {
		select { // wait first, because the first calls of a client are more urgent
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		e.reloader.KeepApplied()
	})
	e.live.background.Go(func() { e.reloader.CheckRollouts(ctx) })
	if err := e.watchFiles(e.Current().Config); err != nil {
		e.problemf("%v. Use toolhost plugin reload.", err)
	}
	// A file can change after the host reads it and before the watcher starts. A delayed check finds such a change. A
	// host with a short life skips the check.
	if w := e.live.files.watcher; w != nil {
		e.live.first = time.AfterFunc(time.Second, w.Check)
	}
	// Start the server last, because other processes must find a host that is ready.
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

// configured applies a new configuration to the background tasks.
func (e *Engine) configured(cfg *config.Config) {
	if err := e.watchFiles(cfg); err != nil {
		e.opts.Log.Warn("changes of files are not watched", "why", err)
	}
	select {
	case e.live.reconfigured <- struct{}{}:
	default:
	}
}

// watchFiles watches the files that a configuration depends on. It does nothing if the configuration disables the
// watcher.
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
	for _, path := range e.reloader.Files(cfg) {
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

// diskChanged starts a reload after a change of files and returns immediately.
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

// control runs a request from another process.
func (e *Engine) control(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case control.OpEnable:
		var a control.EnableArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return nil, e.SetEnabled(a.Name, a.On, e.local.Name)
	case control.OpRollback:
		var a control.RollbackArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return e.Rollback(ctx, a.ID, e.local.Name)
	case control.OpRollout:
		var a control.RolloutArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return struct{}{}, e.Rollout(a.Plugin, a.Action, e.local.Name)
	case control.OpRenew:
		e.reloader.Renew()
		return e.reloader.Reload(ctx, reload.Options{}) // the approved version of the plugin can now be loaded
	case control.OpReleaseBranch, control.OpCheckpoint, control.OpRestore:
		return e.controlBranch(ctx, op, args)
	case control.OpTakeOver:
		var a control.TakeOverArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return struct{}{}, e.siblings.HandOver(ctx, a)
	case control.OpSupervises:
		return e.siblings.HasConsole(), nil
	case control.OpAsks, control.OpAnswer:
		return e.siblings.AnswerAsks(op, args)
	case control.OpConsole:
		return e.siblings.ConsoleLink()
	case control.OpFleet:
		return e.controlFleet(ctx, args)
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
		opts.By = e.local.Name
		return e.reloader.Reload(ctx, opts)
	}
	return nil, fmt.Errorf("this host has version %s, which does not support %q: restart it to run the installed version", Version, op)
}
