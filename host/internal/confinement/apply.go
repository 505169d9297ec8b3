package confinement

import (
	"fmt"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/repository"
)

// GuardApply prepares for the apply of a branch in a workspace. The apply can add repositories with files that make git run
// programs. The returned function removes these files and returns messages about them. This check cannot happen earlier,
// because nobody outside of the branch's sandbox sees the files before the apply.
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
