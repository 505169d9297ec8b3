package confinement

import (
	"fmt"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/repository"
)

// GuardApply prepares for the apply of a branch in a workspace. The returned function removes files from new repositories
// through which git would run programs, and returns messages about these files. The sandbox of a branch cannot do that,
// because nobody outside of it sees the files before the apply.
func GuardApply(cfg *config.Config, parts *Parts, workspace string) (after func() []string, err error) {
	l := New(cfg, parts)
	off, settings := cfg.Sandbox.Repositories == "off", l.settings()
	if off && len(settings) == 0 {
		return func() []string { return nil }, nil
	}
	after, err = parts.Repositories.Watch([]repository.Dir{{
		Path: workspace, Settings: settings, NoRepositories: off,
		Kept: repository.Kept{Globs: cfg.Permissions.Paths.Protect, Paths: func() ([]string, error) { return cfg.Protected, nil }},
	}}, false)
	if err != nil {
		return nil, fmt.Errorf("nothing was applied, because %w", err)
	}
	return after, nil
}
