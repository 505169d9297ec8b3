package admission

import (
	"path/filepath"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

// CheckStart returns a function that the host calls before each start of a program. The function returns an error if
// tools can write a file of the program, and nobody trusted the file with its current content. The function searches
// PATH and the arguments again, because a tool can create a file that did not exist before. It ignores the binaries of
// plugins, because plugins run as copies. The function is safe for concurrent use.
func (s Source) CheckStart(cfg *config.Config) func(trust.Start) error {
	if cfg.Path == "" {
		return func(trust.Start) error { return nil }
	}
	guard := s.Guard(cfg)
	s.Path = cfg.Path
	programs := cfg.Programs(s.BundledDir)
	return func(start trust.Start) error {
		if why := cfg.Refusal(start.Block); why != "" {
			return tool.Errorf(tool.Security, "%s", why)
		}
		for _, p := range programs {
			if p.Block != start.Block || p.PerCall != start.PerCall {
				continue
			}
			files := s.filesOf(newLook(), p, cfg, start.Cwd)
			if p.Plugin {
				files = files[1:]
			}
			for _, path := range files {
				if err := s.checkFile(p, path, guard); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (s Source) checkFile(p config.Program, path string, guard func(string) (string, bool)) error {
	sum, guarded := guard(path)
	if !guarded {
		return nil
	}
	is, err := trust.Hash(path)
	if err != nil {
		is = unreadable
	}
	if err := s.changed(p, path, is, sum); err != nil {
		return tool.Errorf(tool.Security, "%w", err)
	}
	return nil
}

// Uses returns the files that the host reads or runs because of a configuration: the configuration files, the programs,
// and the code files in their arguments.
func (s Source) Uses(cfg *config.Config) (paths []string) {
	if cfg.Path == "" {
		return nil
	}
	for path := range cfg.Texts() {
		paths = append(paths, path)
	}
	look := newLook()
	for _, p := range cfg.Programs(s.BundledDir) {
		for _, path := range s.filesOf(look, p, cfg, "") {
			if filepath.IsAbs(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Guard returns a function for files that plugins need at their start. For a path that tools can write, the function
// returns the trusted SHA-256, or "" if nobody trusted the file. For other paths, the result "guarded" is false. The
// function is safe for concurrent use.
func (s Source) Guard(cfg *config.Config) func(path string) (sum string, guarded bool) {
	if cfg.Path == "" {
		return func(string) (string, bool) { return "", false }
	}
	s.Path = cfg.Path
	dirs, bundled := s.exposed(cfg), filepath.Clean(s.BundledDir)
	key, keyErr := canonical(s.Path)
	base := sync.OnceValues(s.Decisions) // few configurations have a file that tools can write
	return func(path string) (string, bool) {
		if filepath.Dir(path) == bundled || !writable(dirs, path) {
			return "", false
		}
		if decisions, err := base(); err == nil && keyErr == nil {
			if decision, err := decisions.Of(key); err == nil && decision != nil {
				for _, sums := range []map[string]string{decision.Programs, decision.Files} {
					if sum, ok := sums[path]; ok {
						return sum, true
					}
				}
			}
		}
		return cfg.Trusted[path], true
	}
}
