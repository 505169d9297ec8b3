package admin

import (
	"fmt"
	"log/slog"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/state"
)

// Records is what hosts keep in a state directory, opened without a host. It is safe for concurrent use.
type Records struct{ state *state.DB }

// OpenRecords opens the state directory that a host with these options would use. It looks at no plugin. The caller must call Close.
func OpenRecords(opts Options) (*Records, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := load(opts)
	if err != nil {
		return nil, err
	}
	dir, err := state.Dir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, fmt.Errorf("the state directory is not known: %w", err)
	}
	db, err := state.Open(dir, opts.Log)
	if err != nil {
		return nil, err
	}
	return &Records{state: db}, nil
}

// Log returns entries of the audit log, oldest first.
func (r *Records) Log(q host.LogQuery) ([]host.LogEntry, error) { return r.state.AuditLog(q) }

// Answers returns the remembered answers to permission asks, of all sessions and workspaces.
func (r *Records) Answers() ([]host.Answer, error) { return r.state.Answers() }

// Revoke forgets a remembered answer, or all of them if id is 0. It returns how many.
func (r *Records) Revoke(id int64) (int64, error) { return r.state.Revoke(id) }

// SessionNames returns the names of the sessions used last, newest first.
func (r *Records) SessionNames(limit int) ([]string, error) {
	sessions, err := r.state.Sessions(limit)
	var out []string
	for _, s := range sessions {
		out = append(out, s.ID)
	}
	return out, err
}

// Close closes the records.
func (r *Records) Close() error { return r.state.Close() }
