package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/watch"
)

// live is what a host does by itself, and for other processes.
type live struct {
	began      time.Time
	watcher    *watch.Watcher  // nil: nothing is watched
	server     *control.Server // nil: nobody is answered
	background sync.WaitGroup
	first      *time.Timer
	end        context.CancelFunc // of the checks of health
	configured chan struct{}      // a token after the configuration changed
}

// goLive begins it. Without it calls work as well, so what fails is only a problem.
func (h *Host) goLive() {
	h.reloads.one.Lock() // others may ask for a reload before all is set up
	defer h.reloads.one.Unlock()
	h.live.began = time.Now()
	ctx, end := context.WithCancel(context.Background())
	h.live.end, h.live.configured = end, make(chan struct{}, 1)
	h.live.background.Go(func() { h.watchHealth(ctx) })
	if h.stateRoot != "" {
		server, err := control.Listen(controlDir(h.stateRoot), h.control)
		if err != nil {
			h.problem("toolhost plugin reload and toolhost status do not reach this host: %v.", err)
		}
		h.live.server = server
	}
	if err := h.watchFiles(); err != nil {
		h.problem("%v. Use toolhost plugin reload.", err)
	}
	// What changed between being read and being watched; a host that ends at once need not look.
	if w := h.live.watcher; w != nil {
		h.live.first = time.AfterFunc(time.Second, w.Check)
	}
}

func (l *live) close() {
	if l.end != nil {
		l.end()
	}
	if l.first != nil {
		l.first.Stop()
	}
	if l.watcher != nil {
		l.watcher.Close()
	}
	if l.server != nil {
		l.server.Close()
	}
}

// watchFiles has those watched that the configuration comes to, if it wants that.
func (h *Host) watchFiles() error {
	cfg := h.current.Load().cfg
	if !h.opts.Live || !cfg.Reload.Watch {
		return nil
	}
	if h.live.watcher == nil {
		watcher, err := watch.New(h.log, h.diskChanged)
		if err != nil {
			return err
		}
		h.live.watcher = watcher
	}
	var files, dirs []string
	add := func(list *[]string, path string) {
		if abs, err := filepath.Abs(path); err == nil {
			*list = append(*list, abs)
		}
	}
	for _, path := range cfg.Binaries() {
		add(&files, path)
	}
	if h.opts.Config != "" {
		names, _ := config.List(h.opts.Config)
		for _, path := range slices.Concat(names, cfg.Files(), h.opts.VariableFiles, []string{h.opts.Config, config.VariableFile(h.opts.Config)}) {
			add(&files, path)
		}
		if isDir(h.opts.Config) {
			add(&dirs, h.opts.Config)
		}
	}
	h.live.watcher.Set(files, dirs)
	return nil
}

// onDisk tells apart what there is of a configuration's files.
func (h *Host) onDisk(cfg *config.Config) string {
	var b strings.Builder
	paths := cfg.Binaries()
	if h.opts.Config != "" {
		names, _ := config.List(h.opts.Config) // none is another thing to see
		paths = slices.Concat(paths, names, cfg.Files(), h.opts.VariableFiles, []string{config.VariableFile(h.opts.Config)})
	}
	for _, path := range paths {
		fmt.Fprintf(&b, "%q %s\n", path, state.FileIdentity(path))
	}
	return b.String()
}

// diskChanged reloads what changed. It does not wait for that.
func (h *Host) diskChanged() {
	if !h.current.Load().cfg.Reload.Watch {
		return
	}
	h.reloads.changed(h.onDisk(h.current.Load().cfg), func() {
		h.live.background.Go(func() {
			if _, err := h.Reload(context.Background(), ReloadOptions{automatic: true}); err != nil {
				h.log.Warn("nothing was reloaded", "why", err)
			}
		})
	})
}

// controlDir is where the sockets of running hosts are.
func controlDir(stateRoot string) string { return filepath.Join(stateRoot, "control") }

// RemoteStatus is the status of a running host as another process sees it.
type RemoteStatus struct {
	PID   int       `json:"pid"`
	Began time.Time `json:"began"`
	Status
}

const (
	opReload = "reload"
	opPlan   = "plan"
	opStatus = "status"
	opEnable = "enable"
	opStats  = "stats"
	opRenew  = "renew"
)

// control answers another process.
func (h *Host) control(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case opEnable:
		var e enableArgs
		if err := json.Unmarshal(args, &e); err != nil {
			return nil, err
		}
		return nil, h.setEnabled(e.Name, e.On)
	case opRenew:
		h.reloads.one.Lock()
		h.renew()
		h.reloads.one.Unlock()
		return h.Reload(ctx, ReloadOptions{}) // what was refused because it was not approved
	case opStatus:
		return RemoteStatus{PID: os.Getpid(), Began: h.live.began, Status: h.Status()}, nil
	case opStats:
		return RemoteStats{PID: os.Getpid(), Began: h.live.began, Workspace: h.opts.Workspace, Stats: h.Stats()}, nil
	case opPlan:
		return h.Plan(ctx)
	case opReload:
		var opts ReloadOptions
		if err := json.Unmarshal(args, &opts); err != nil {
			return nil, err
		}
		return h.Reload(ctx, opts)
	}
	return nil, fmt.Errorf("this host is of version %s and does not know %q: restart it", Version, op)
}

// Remote is a running host of this user, in another process; see [Options.Live].
type Remote struct {
	PID    int
	socket control.Socket
}

// Running gives the hosts that run with the state directory which opts come to.
func Running(opts Options) ([]Remote, error) {
	cfg, err := opts.readConfig()
	if err != nil { // what is wrong with it is what they may be asked
		cfg = &config.Config{}
	}
	dir, err := stateDir(opts.StateDir, cfg)
	if err != nil {
		return nil, err
	}
	var out []Remote
	for _, s := range control.Sockets(controlDir(dir)) {
		if s.PID != os.Getpid() {
			out = append(out, Remote{PID: s.PID, socket: s})
		}
	}
	return out, nil
}

// Reload has the host reload; see [Host.Reload].
func (r Remote) Reload(ctx context.Context, opts ReloadOptions) (*Reload, error) {
	out := new(Reload)
	return out, r.socket.Ask(ctx, opReload, opts, out)
}

type enableArgs struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

// Enable has the host enable a tool or all tools of a plugin, or disable them; see [Host.Enable].
func (r Remote) Enable(ctx context.Context, name string, on bool) error {
	return r.socket.Ask(ctx, opEnable, enableArgs{name, on}, new(any))
}

// Renew has the host look again at what was approved.
func (r Remote) Renew(ctx context.Context) (*Reload, error) {
	out := new(Reload)
	return out, r.socket.Ask(ctx, opRenew, nil, out)
}

// Status asks the host for its status.
func (r Remote) Status(ctx context.Context) (*RemoteStatus, error) {
	out := new(RemoteStatus)
	return out, r.socket.Ask(ctx, opStatus, nil, out)
}
