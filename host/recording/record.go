// Package recording records the calls of sessions on tapes, replays tapes, and answers calls from tapes. Most callers want
// [Record] and [Replay]. Package tape of the SDK reads the tapes.
package recording

import (
	"fmt"
	"os"
	"path/filepath"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/paths"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
)

// Limits for the files of a workspace on a tape.
const (
	// DefaultMaxBytes is the default of [Settings].
	DefaultMaxBytes = 256 << 20
	// MaxFiles is the maximum number of files.
	MaxFiles = 100_000
)

// Settings configures [Record].
type Settings struct {
	// Session is the ID of the session. Empty means the default session of the workspace.
	Session string
	// Path is the tape. The file must not exist.
	Path string
	// Exclude contains globs for files of the workspace that the tape does not need.
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

// Record begins to record the calls of a session on a tape, in all host processes with the same state directory. The tape
// begins with the files of the workspace, without those that tools must not read.
func Record(opts Options, r Settings) (*Recording, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	cfg, err := source.Open()
	if err != nil {
		return nil, err
	}
	dir, err := state.Dir(opts.StateDir, cfg.Host.StateDir)
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
	for _, root := range roots.Configured(cfg, workspace) {
		if root.Writable && root.Contains(path) {
			return nil, fmt.Errorf("the tape %s is in %s, where tools can write. Name a file outside of it, such as %s", path, root.Path, filepath.Join(os.TempDir(), filepath.Base(path)))
		}
	}
	hide, err := policy.Globs(cfg.Permissions.Paths.Deny, workspace)
	if err != nil {
		return nil, err
	}
	denied := paths.New([]paths.Root{{Path: workspace}}, paths.Rules{Hide: append(hide, cfg.Sandbox.Deny...)})
	if r.MaxBytes == 0 {
		r.MaxBytes = DefaultMaxBytes
	}
	return recorder.Start(recorder.Settings{
		Dir: state.Home{Root: dir}.Recordings(), Session: session, Path: path, Host: host.Version, Workspace: workspace,
		Snapshot: &recorder.Snapshot{Root: workspace, Denied: denied.Concerns, Exclude: r.Exclude, MaxBytes: r.MaxBytes, MaxFiles: MaxFiles},
	})
}
