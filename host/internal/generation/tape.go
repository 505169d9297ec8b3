package generation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/paths"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/stage"
)

// Limits for the files of a workspace on a tape.
const (
	// DefaultTapeBytes is the default for the size of the files.
	DefaultTapeBytes = 256 << 20
	// MaxTapeFiles is the maximum number of files.
	MaxTapeFiles = 100_000
)

// Tape returns the settings of a tape of a session in a workspace. The snapshot in the settings omits files that tools
// must not read, and files that match a glob in the list "exclude". If the argument "bytes" is zero, Tape uses
// [DefaultTapeBytes]. Tape returns an error if tools can write to the path of the tape.
func Tape(cfg *config.Config, workspace, path string, exclude []string, bytes int64) (recorder.Settings, error) {
	for _, root := range roots.Configured(cfg, workspace) {
		if root.Writable && root.Contains(path) {
			return recorder.Settings{}, fmt.Errorf("the tape %s is in %s, where tools can write. Name a file outside of it, such as %s", path, root.Path, filepath.Join(os.TempDir(), filepath.Base(path)))
		}
	}
	hide, err := policy.Globs(cfg.Permissions.Paths.Deny, workspace)
	if err != nil {
		return recorder.Settings{}, err
	}
	denied := paths.New([]paths.Root{{Path: workspace}}, paths.Rules{Hide: append(hide, cfg.Sandbox.Deny...)})
	if bytes == 0 {
		bytes = DefaultTapeBytes
	}
	return recorder.Settings{
		Path: path, Host: build.Version, Workspace: workspace,
		Snapshot: &recorder.Snapshot{
			Root: workspace, Denied: denied.Concerns, Exclude: exclude, MaxBytes: bytes, MaxFiles: MaxTapeFiles,
		},
	}, nil
}

// records returns the recordings that a host begins. It returns nil if the host begins no recordings.
func (b *Builder) records(cfg *config.Config) stage.TapePlans {
	if cfg.Record.Dir == "" || !b.Options.Records {
		return nil
	}
	return recordings{cfg}
}

// recordings are the recordings that a configuration describes.
type recordings struct{ cfg *config.Config }

// Plan implements [stage.TapePlans].
func (c recordings) Plan(s *call.Session) *stage.TapePlan {
	r := c.cfg.Record
	id := s.Principal.SessionID(s.ID, s.Workspace)
	if len(r.Principals) > 0 && !slices.Contains(r.Principals, s.Principal.Name) || !matches(r.Sessions, id) {
		return nil
	}
	return &stage.TapePlan{ID: id, Keep: r.Keep, Plan: func() (recorder.Settings, error) {
		return Tape(c.cfg, s.Workspace, r.Dir, r.Exclude, r.MaxBytes)
	}}
}

func matches(globs []string, id string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := doublestar.Match(glob, id)
		return ok && err == nil // the globs were checked
	})
}
