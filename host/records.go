package host

import (
	"fmt"
	"log/slog"

	"toolhost.dev/host/internal/state"
)

// Answer is a remembered answer to a permission ask.
type Answer = state.Answer

// Answers lists the remembered answers of every session and workspace.
func (h *Host) Answers() ([]Answer, error) { return h.state.Answers() }

// Revoke forgets a remembered answer, or all of them when id is 0, and gives how many.
func (h *Host) Revoke(id int64) (int64, error) { return h.state.Revoke(id) }

// Records is what hosts leave behind in the state directory, without a host.
type Records struct{ state *state.DB }

// OpenRecords opens the state directory that a host with these options would use. No
// plugin is looked at.
func OpenRecords(opts Options) (*Records, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := opts.readConfig()
	if err != nil {
		return nil, err
	}
	dir, err := stateDir(opts.StateDir, cfg)
	if err != nil {
		return nil, fmt.Errorf("the state directory is not known: %w", err)
	}
	db, err := state.Open(dir, opts.Log)
	if err != nil {
		return nil, err
	}
	return &Records{state: db}, nil
}

// Answers lists the remembered answers of every session and workspace.
func (r *Records) Answers() ([]Answer, error) { return r.state.Answers() }

// Revoke forgets a remembered answer, or all of them when id is 0, and gives how many.
func (r *Records) Revoke(id int64) (int64, error) { return r.state.Revoke(id) }

// SessionNames are the sessions last used, newest first.
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
