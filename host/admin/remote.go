package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/reload"
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

// Running returns the running hosts that use the state directory of these options. An invalid configuration is no
// error.
func Running(opts Options) ([]Remote, error) {
	cfg, err := engine.Options(opts).Configuration()
	if err != nil { // continue, because the caller can ask the hosts about the error
		cfg = &config.Config{}
	}
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
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

// Rollout carries out an action on the rollout of a plugin: "promote", "pause", "resume" or "abort".
func (r Remote) Rollout(ctx context.Context, plugin, action string) error {
	_, err := ask[struct{}](ctx, r, control.OpRollout, control.RolloutArgs{Plugin: plugin, Action: action})
	return err
}

// Fleet carries out an operation on the fleet of the host. Package fleet documents the operations.
func (r Remote) Fleet(ctx context.Context, operation string, arguments any) (json.RawMessage, error) {
	out, err := ask[json.RawMessage](ctx, r, control.OpFleet, map[string]any{
		"operation": operation, "arguments": arguments,
	})
	if err != nil {
		return nil, err
	}
	return *out, nil
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

// Console returns a one-time link to the web console of the host. It returns an error if the host has no web console.
func (r Remote) Console(ctx context.Context) (string, error) {
	out, err := ask[engine.Console](ctx, r, control.OpConsole, nil)
	if err != nil {
		return "", err
	}
	return out.URL, nil
}

// Rollback restores an earlier configuration in the host and applies it. See [host.Host.Rollback].
func (r Remote) Rollback(ctx context.Context, id int64) (*host.RolledBack, error) {
	return ask[host.RolledBack](ctx, r, control.OpRollback, control.RollbackArgs{ID: id})
}

// Rollback restores an earlier configuration without a running host. See [host.Host.Rollback].
func Rollback(opts Options, id int64) (*host.RolledBack, error) {
	r, err := OpenHistory(opts)
	if err != nil {
		return nil, err
	}
	to, changed, err := reload.Restore(r.state, opts.Config, id)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	out := &host.RolledBack{To: *to, Changed: append([]string{}, changed...)}
	out.To.Files = nil
	err = errors.Join(RenewContent(opts, changed...), r.Close())
	return out, errors.Join(err, audited(opts, "(rollback)", map[string]any{
		"to": to.ID, "digest": to.Digest, "files": out.Changed,
	}))
}

// audited adds an action of an operator to the audit log. It is needed if no running host carries out and records the
// action.
func audited(opts Options, what string, arguments map[string]any) error {
	cfg, dir, err := stateDirectory(opts)
	if err != nil { // the configuration is invalid, and the operator may be about to correct it
		cfg = &config.Config{Audit: config.DefaultAudit()}
		if dir, err = state.FindDir(opts.StateDir, ""); err != nil {
			return err
		}
	}
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	generation.Audit(cfg, db, nil)
	e := reload.Administration("", what, arguments, "")
	e.Workspace = opts.Workspace
	db.AddAudit(e)
	return db.Close()
}
