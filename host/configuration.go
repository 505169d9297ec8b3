package host

import (
	"errors"
	"os"
	"path/filepath"

	"toolhost.dev/host/internal/config"
)

// FindConfig gives the configuration that the program would use: path when it is not
// empty, else $TOOLHOST_CONFIG, ./toolhost.hcl, the user's configuration directory;
// empty: the built-in default.
func FindConfig(path string) string { return config.Find(path) }

// BundledDir is where the bundled plugins are: "plugins" beside the executable.
func BundledDir() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if target, err := filepath.EvalSymlinks(exe); err == nil {
		exe = target
	}
	return filepath.Join(filepath.Dir(exe), "plugins")
}

// ConfigSummary is what there is in a configuration.
type ConfigSummary struct {
	// Source is its file or directory, or "built-in".
	Source  string
	Plugins int
}

// ValidateConfig checks a configuration (empty: the built-in one) without starting
// anything. The error says everything that is wrong, each with file and line.
func ValidateConfig(path string) (ConfigSummary, error) {
	sum := ConfigSummary{Source: path}
	if path == "" {
		sum.Source = "built-in"
	}
	cfg, err := config.Load(path, config.Environment{BundledDir: BundledDir()})
	if err != nil {
		return sum, err
	}
	sum.Plugins = len(cfg.Plugins)
	_, err = rules(cfg)
	errs := []error{err}
	for _, p := range cfg.Plugins {
		if p.Missing != "" {
			errs = append(errs, errors.New(cfg.MissingBinary(p)))
		}
	}
	return sum, errors.Join(errs...)
}
