package admission

import (
	"path/filepath"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

// CheckStart returns a function that the host calls before each start of a program. The function returns an error if
// tools can write a file of the program, and nobody trusted the file with its current content. It searches PATH and the
// arguments again, because a tool can create a file that did not exist before. It ignores the binaries of plugins, which
// run as copies. The function is safe for concurrent use.
func (s Source) CheckStart(cfg *config.Config) func(trust.Start) error {
	if cfg.Path == "" {
		return func(trust.Start) error { return nil }
	}
	guard := s.Guard(cfg)
	s.Path = cfg.Path
	programs := cfg.Programs(s.BundledDir)
	return func(start trust.Start) error {
		for _, p := range programs {
			if p.Block != start.Block || p.PerCall != start.PerCall {
				continue
			}
			files := s.filesOf(p, cfg, start.Cwd)
			if p.Plugin {
				files = files[1:]
			}
			for _, path := range files {
				if err := checkFile(p, path, guard); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func checkFile(p config.Program, path string, guard func(string) (string, bool)) error {
	sum, guarded := guard(path)
	if !guarded {
		return nil
	}
	switch is, err := trust.Hash(path); {
	case err == nil && is == "": // permit the missing file, because the start fails without it
		return nil
	case sum == "":
		return tool.Errorf(tool.Security, "%s of %s is in a directory that tools can write, and it is not trusted. Review it with toolhost trust, or move it to another directory", path, p.Block)
	case err != nil:
		return tool.Errorf(tool.Security, "%s of %s cannot be compared with the file that a person trusted: %w", path, p.Block, err)
	case is != sum:
		return tool.Errorf(tool.Security, "%s of %s changed since it was trusted, and tools can write its directory. Restore it, or review it: toolhost trust", path, p.Block)
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
	for _, p := range cfg.Programs(s.BundledDir) {
		for _, path := range s.filesOf(p, cfg, "") {
			if filepath.IsAbs(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
