package admin

import (
	"context"
	"os"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/state"
)

// Remote is a running host of the same user in another process. This host must have been started with the option Live.
type Remote struct {
	PID    int
	socket control.Socket
}

// RemoteStatus is the status of a running host.
type RemoteStatus = engine.RemoteStatus

// RemoteStats holds the statistics of a running host.
type RemoteStats = engine.RemoteStats

// Running returns the running hosts that use the state directory of these options. It also works if the configuration is
// invalid.
func Running(opts Options) ([]Remote, error) {
	cfg, err := load(opts)
	if err != nil { // continue, because the caller can ask the hosts about the error
		cfg = &config.Config{}
	}
	dir, err := state.Dir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, err
	}
	var out []Remote
	for _, s := range control.Sockets(state.Home{Root: dir}.Control()) {
		if s.PID != os.Getpid() {
			out = append(out, Remote{PID: s.PID, socket: s})
		}
	}
	return out, nil
}

// ask sends an operation to a host and returns the decoded result.
func ask[T any](ctx context.Context, r Remote, op string, args any) (*T, error) {
	out := new(T)
	return out, r.socket.Ask(ctx, op, args, out)
}

// Reload reloads the host in the other process. See [host.Host.Reload].
func (r Remote) Reload(ctx context.Context, opts host.ReloadOptions) (*host.Reload, error) {
	return ask[host.Reload](ctx, r, control.OpReload, opts)
}

// Plan returns the changes that a reload of the host would make. See [host.Host.Plan].
func (r Remote) Plan(ctx context.Context) (*host.Plan, error) {
	return ask[host.Plan](ctx, r, control.OpPlan, nil)
}

// Enable enables or disables a tool of the host, or all tools of a plugin. See [host.Host.Enable].
func (r Remote) Enable(ctx context.Context, name string, on bool) error {
	_, err := ask[any](ctx, r, control.OpEnable, control.EnableArgs{Name: name, On: on})
	return err
}

// Renew makes the host apply changed approvals.
func (r Remote) Renew(ctx context.Context) (*host.Reload, error) {
	return ask[host.Reload](ctx, r, control.OpRenew, nil)
}

// Status returns the host's status.
func (r Remote) Status(ctx context.Context) (*RemoteStatus, error) {
	return ask[RemoteStatus](ctx, r, control.OpStatus, nil)
}

// Stats returns the host's statistics.
func (r Remote) Stats(ctx context.Context) (*RemoteStats, error) {
	return ask[RemoteStats](ctx, r, control.OpStats, nil)
}
