package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// readConfig reads the configuration that they are about.
func (o Options) readConfig() (*config.Config, error) {
	if o.BundledDir == "" {
		o.BundledDir = BundledDir()
	}
	if o.nothing {
		return config.Nothing(), nil
	}
	return config.Load(o.Config, config.Environment{BundledDir: o.BundledDir, Variables: o.Variables, VariableFiles: o.VariableFiles})
}

// ValidateConfig checks the configuration that opts name, without starting
// anything. The error says everything that is wrong, each with file and line.
func ValidateConfig(opts Options) (ConfigSummary, error) {
	sum := ConfigSummary{Source: opts.Config}
	if opts.Config == "" {
		sum.Source = "built-in"
	}
	cfg, err := opts.readConfig()
	if err != nil {
		return sum, err
	}
	sum.Plugins = len(cfg.Plugins)
	_, err = rules(cfg)
	errs := []error{err}
	for _, p := range cfg.Plugins {
		if p.Missing != "" {
			errs = append(errs, cfg.MissingBinary(p))
		}
	}
	return sum, errors.Join(errs...)
}

// ConfigFiles gives the files of a configuration in HCL's native syntax, which are those that
// [FormatConfig] is for.
func ConfigFiles(path string) ([]string, error) {
	if path == "" {
		return nil, errors.New("there is no configuration but the built-in one: name a file")
	}
	names, err := config.List(path)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, ".json") })
	if beside := config.VariableFile(path); isFile(beside) {
		names = append(names, beside)
	}
	return names, nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// FormatConfig gives a file of a configuration in the usual form. The error says, with name and
// line, why it is not HCL.
func FormatConfig(name string, src []byte) ([]byte, error) { return config.Format(name, src) }

// ConfigProblem is one thing that is wrong with a configuration.
type ConfigProblem = config.Problem

// ConfigProblems takes an error of [ValidateConfig] or [New] apart. What is not about a place in
// a file is one problem of its own.
func ConfigProblems(err error) []ConfigProblem {
	out := []ConfigProblem{}
	var one *config.Error
	var all interface{ Unwrap() []error }
	switch {
	case err == nil:
	case errors.As(err, &all):
		for _, e := range all.Unwrap() {
			out = append(out, ConfigProblems(e)...)
		}
	case errors.As(err, &one):
		out = append(out, one.List()...)
	default:
		out = append(out, ConfigProblem{Severity: "error", Summary: err.Error()})
	}
	return out
}

// LaunchConfig starts every plugin of the configuration that opts name, each in its sandbox, and
// says what keeps a part of it from working: with file and line, and of a plugin's own configuration at
// the lines where that stands. Nothing is kept of it. The error is about the configuration as a whole.
func LaunchConfig(ctx context.Context, opts Options) (problems []string, err error) {
	dir, err := os.MkdirTemp("", "toolhost-validate-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	opts.StateDir, opts.Live = dir, false
	h, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	return h.Problems(), h.Close()
}
