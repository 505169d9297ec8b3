package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/host/admin/internal/backup"
	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/state"
)

// Backup describes the archive of a state directory.
type Backup = backup.Report

// RestoredState describes a restored state directory.
type RestoredState = backup.Restored

// anyStateDirectory returns the state directory of the options, also if the configuration is invalid.
func anyStateDirectory(opts Options) (string, error) {
	_, dir, err := stateDirectory(opts)
	if err == nil {
		return dir, nil
	}
	if opts.StateDir == "" {
		return "", fmt.Errorf("%w. Name the state directory with --state to go on without the configuration", err)
	}
	return state.FindDir(opts.StateDir)
}

// BackUpState writes an archive of the state directory to a new file. It returns an error if the file exists. Hosts can
// continue to use the directory.
func BackUpState(ctx context.Context, opts Options, path string) (*Backup, error) {
	dir, err := anyStateDirectory(opts)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	out, err := backup.Write(ctx, dir, path, build.Version)
	if err != nil {
		return nil, err
	}
	return out, audited(opts, "(state backup)", map[string]any{"file": path, "files": out.Files})
}

// RestoreState replaces the content of the state directory with the content of an archive. It returns an error if a
// process uses the directory.
func RestoreState(ctx context.Context, opts Options, path string) (*RestoredState, error) {
	dir, err := anyStateDirectory(opts)
	if err != nil {
		return nil, err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	var users []string
	for _, s := range control.Sockets(state.Home{Root: dir}.Control()) {
		users = append(users, fmt.Sprintf("the host with process id %d", s.PID))
	}
	if n := state.Owners(dir); len(users) == 0 && n > 0 {
		users = append(users, fmt.Sprintf("%d running commands of toolhost", n))
	}
	if len(users) > 0 {
		return nil, fmt.Errorf("%s is in use by %s. Stop it first, for example with kill or systemctl stop toolhost, or restore into another directory with --state", dir, strings.Join(users, ", "))
	}
	out, err := backup.Restore(ctx, path, dir)
	if err != nil {
		return nil, err
	}
	opts.StateDir = dir
	return out, audited(opts, "(state restore)", map[string]any{"file": path, "of": out.At, "before": out.Before})
}

// StateGarbage describes the data in a state directory that exceeds the retention limits of the configuration.
type StateGarbage struct {
	// Dry reports that nothing was deleted.
	Dry bool `json:"dry_run"`
	state.Collected
	// Output and OutputBytes are the number and the size of the files with long output.
	Output      int64 `json:"output_files"`
	OutputBytes int64 `json:"output_bytes"`
	// Versions and VersionBytes are the number and the size of the copies of binaries that no rollout needs.
	Versions     int64 `json:"versions"`
	VersionBytes int64 `json:"version_bytes"`
	// Sizes contains the sizes of the parts of the directory after the collection, in bytes.
	Sizes map[string]int64 `json:"sizes"`
	// Kept lists the data that was not collected, with the reasons.
	Kept []string `json:"kept"`
}

// defaultOutputAge is the default of the setting output_age of the bundled shell. Files that are younger than
// youngestOutput are never removed, because a call can still write to them.
const (
	defaultOutputAge = 7 * 24 * time.Hour
	youngestOutput   = 10 * time.Minute
)

// CollectState deletes data that exceeds the retention limits of the configuration. If dry is true, it only counts this
// data. Hosts can continue to use the directory. If no host uses it, CollectState also shrinks the database file.
func CollectState(ctx context.Context, opts Options, dry bool) (*StateGarbage, error) {
	cfg, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); err != nil {
		return nil, fmt.Errorf("%s has no state of toolhost; name the state directory with --state", dir)
	}
	out := &StateGarbage{Dry: dry, Kept: []string{}}
	alone := len(control.Sockets(state.Home{Root: dir}.Control())) == 0 && state.Owners(dir) == 0
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	generation.Audit(cfg, db, nil)
	out.Collected, err = db.Collect(ctx, dry, alone)
	if err == nil {
		out.Versions, out.VersionBytes, err = generation.CollectVersions(state.Home{Root: dir}, db, cfg, dry)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	if !alone {
		out.Kept = append(out.Kept, "A host uses the directory, so the database file does not become smaller. Its free pages are used again.")
	}
	if cfg.Retention.Undo > 0 {
		out.Kept = append(out.Kept, "Changes that can no longer be undone are deleted by the plugin that keeps them, at its first use.")
	}
	age := cfg.Retention.Output
	if age == 0 {
		age = defaultOutputAge
	}
	home := state.Home{Root: dir}
	home.EachOutput(func(path string, info fs.FileInfo) {
		if time.Since(info.ModTime()) < max(age, youngestOutput) || !dry && os.Remove(path) != nil {
			return
		}
		out.Output++
		out.OutputBytes += info.Size()
	})
	history := make(state.UndoFiles)
	for name, desc := range described(cfg, opts) {
		history.Add(name, desc)
	}
	out.Sizes = home.Sizes(history)
	if dry {
		return out, nil
	}
	return out, audited(opts, "(state gc)", map[string]any{
		"sessions": out.Sessions, "history": out.History, "audit": out.Audit, "output_files": out.Output,
		"versions": out.Versions,
	})
}
