package admin

import (
	"fmt"
	"log/slog"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/state"
)

// Records provides access to a state directory without a running host. It is safe for concurrent use.
type Records struct{ state *state.DB }

// OpenRecords opens the state directory that a host with these options would use. It does not access plugins. The
// caller must call Close.
func OpenRecords(opts Options) (*Records, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	_, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, err
	}
	return openRecords(opts, dir)
}

// OpenHistory is like OpenRecords, but also works if the configuration is invalid, so that a person can go back to an
// earlier configuration. In this case, it uses the state directory in the options, or else the state directory of the
// user.
func OpenHistory(opts Options) (*Records, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	_, dir, err := stateDirectory(opts)
	if err != nil {
		if dir, err = state.FindDir(opts.StateDir); err != nil {
			return nil, err
		}
	}
	return openRecords(opts, dir)
}

func openRecords(opts Options, dir string) (*Records, error) {
	db, err := state.Open(dir, opts.Log)
	if err != nil {
		return nil, err
	}
	return &Records{state: db}, nil
}

// stateDirectory returns the state directory and the configuration that a host with these options would use.
func stateDirectory(opts Options) (*config.Config, string, error) {
	cfg, err := engine.Options(opts).Configuration()
	if err != nil {
		return nil, "", err
	}
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, "", fmt.Errorf("the state directory is not known: %w", err)
	}
	return cfg, dir, nil
}

// Log returns entries of the audit log, oldest first.
func (r *Records) Log(q host.LogQuery) ([]host.LogEntry, error) { return r.state.AuditLog(q) }

// Answers returns the remembered answers to permission asks, of all sessions and workspaces.
func (r *Records) Answers() ([]host.Answer, error) { return r.state.Answers() }

// Revoke deletes the answer with the given id, or all answers if id is 0. It returns the number of deleted answers.
func (r *Records) Revoke(id int64) (int64, error) { return r.state.Revoke(id) }

// SessionNames returns the names of the sessions, most recently used first. It returns at most limit names.
func (r *Records) SessionNames(limit int) ([]string, error) {
	sessions, err := r.state.Sessions(limit)
	var out []string
	for _, s := range sessions {
		out = append(out, s.ID)
	}
	return out, err
}

// Close closes the state directory.
func (r *Records) Close() error { return r.state.Close() }

// ConfigHistory returns the configurations that hosts used at the path of the configuration, newest first.
func (r *Records) ConfigHistory(opts Options) (*host.ConfigHistory, error) {
	return reload.HistoryOf(r.state, opts.Config)
}

// ServedConfig returns an entry of the history with its files.
func (r *Records) ServedConfig(opts Options, id int64) (*host.ServedConfig, error) {
	return reload.ServedConfig(r.state, opts.Config, id)
}
