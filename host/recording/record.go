// Package recording records the calls of sessions on tapes, replays tapes, and answers calls from tapes. Most callers
// want [Record] and [Replay]. Package tape of the SDK reads the tapes.
package recording

import (
	"fmt"
	"path/filepath"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/state"
)

// Limits for the files of a workspace on a tape.
const (
	// DefaultMaxBytes is the default of [Settings].
	DefaultMaxBytes = generation.DefaultTapeBytes
	// MaxFiles is the maximum number of files.
	MaxFiles = generation.MaxTapeFiles
)

// Settings configures [Record].
type Settings struct {
	// Session is the ID of the session. Empty means the default session of the workspace.
	Session string
	// Path is the tape. The file must not exist.
	Path string
	// Exclude contains globs for files of the workspace that are not stored on the tape.
	Exclude []string
	// MaxBytes limits the files of the workspace. Zero means [DefaultMaxBytes].
	MaxBytes int64
}

// Recording is a running recording. The caller must call End.
type Recording = recorder.Tape

// Counts describes the content of a tape.
type Counts = recorder.Counts

// Options contains the options that select the host or configuration. See [host.Options].
type Options = host.Options

// Record begins to record the calls of a session on a tape. It records calls in all host processes with the same state
// directory. The tape begins with the files of the workspace, except those that tools must not read.
func Record(opts Options, r Settings) (*Recording, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	cfg, err := source.Open()
	if err != nil {
		return nil, err
	}
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, fmt.Errorf("the state directory is not known: %w", err)
	}
	workspace := source.Workspace
	session, err := principal.LocalUser().SessionKey(r.Session, workspace)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return nil, err
	}
	settings, err := generation.Tape(cfg, workspace, path, r.Exclude, r.MaxBytes)
	if err != nil {
		return nil, err
	}
	settings.Dir, settings.Session = state.Home{Root: dir}.Recordings(), session
	return recorder.Start(settings)
}
