package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
)

// Summary describes a configuration.
type Summary struct {
	// Source is the file or directory of the configuration, or "built-in".
	Source string
	// Plugins is the number of plugins.
	Plugins int
	// Warnings lists problems that do not prevent loading, such as deprecated names.
	Warnings []Problem
	// Untrusted is the reason why the file does not apply yet. Empty means that the file applies.
	Untrusted string
	// Unchecked is the reason why the names of tools and fields were not checked. Empty means that they were.
	Unchecked string
}

// Validate checks the configuration in the options. It starts no plugins. The error contains every problem with file
// and line. [Problems] splits the error.
func Validate(opts Options) (Summary, error) {
	sum := Summary{Source: opts.Config}
	if opts.Config == "" {
		sum.Source = "built-in"
	}
	source, err := engine.Options(opts).Source()
	if err != nil {
		return sum, err
	}
	cfg, err := source.Load() // load the file itself, even if it is not trusted
	if err != nil {
		return sum, err
	}
	sum.Plugins, sum.Warnings = len(cfg.Plugins), cfg.Warnings()
	if used, err := source.Open(); err != nil {
		sum.Untrusted = err.Error()
	} else {
		sum.Untrusted = used.Untrusted
	}
	_, err = privilege.Rules(cfg)
	errs := []error{err, cfg.Unavailable(), checkPlaces(opts, source.Workspace, cfg)}
	for _, p := range cfg.Plugins {
		if p.Missing != "" {
			errs = append(errs, cfg.MissingBinary(p))
		}
	}
	if err := errors.Join(errs...); err != nil || sum.Untrusted != "" {
		return sum, err
	}
	sum.Unchecked, err = checkNames(opts)
	return sum, err
}

// checkPlaces returns an error if tools could write to the state directory or to recordings.
func checkPlaces(opts Options, workspace string, cfg *config.Config) error {
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return (&roots.Places{}).Check(cfg, workspace)
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil { // it does not exist yet
		target = dir
	}
	return (&roots.Places{State: dir, Target: target}).Check(cfg, workspace)
}

// checkNames checks the names of tools, the programs of hooks and the settings of plugins in a configuration. It starts
// no plugin. If a plugin cannot be loaded, or has no saved description from an earlier start, it cannot check the names
// of tools, and returns the reason.
func checkNames(opts Options) (unchecked string, err error) {
	opts.Live, opts.OnConfig = false, nil
	e, err := engine.NewMode(context.Background(), engine.Options(opts), engine.Mode{IgnorePins: true, Unstarted: true})
	if wrong := (*config.Error)(nil); errors.As(err, &wrong) { // rules about unknown tools
		return "", err
	} else if err != nil {
		return err.Error(), nil //nolint:nilerr // a missing condition for a start, such as a sandbox, is not a mistake in the file
	}
	var errs []error
	g := e.Current()
	if missing := slices.Sorted(maps.Keys(g.Unloaded)); len(missing) > 0 {
		unchecked = fmt.Sprintf("these plugins are not loaded: %s. To load them, run toolhost config validate --launch or toolhost status", strings.Join(missing, ", "))
	}
	for _, p := range g.Wrong() {
		errs = append(errs, errors.New(p))
	}
	for _, p := range g.Plugins {
		errs = append(errs, e.Reloader().Builder.CheckConfig(g.Config, p))
	}
	return unchecked, errors.Join(append(errs, e.Close())...)
}

// CheckSyntax returns an error if the text of a configuration is invalid. It also accepts an untrusted configuration.
// It does not check programs.
func CheckSyntax(opts Options) error {
	source, err := engine.Options(opts).Source()
	if err == nil {
		_, err = source.Load()
	}
	return err
}

// Launch starts every plugin of a configuration in its sandbox and returns the problems with file and line. If a plugin
// reports a problem with one of its settings, the problem contains the line of the setting. Launch saves nothing. If
// the configuration as a whole is invalid, it returns an error.
func Launch(ctx context.Context, opts Options) (problems []string, err error) {
	dir, err := os.MkdirTemp("", "toolhost-validate-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	decisions, err := decisions(opts)
	if err != nil {
		return nil, err
	}
	opts.TrustDir, opts.StateDir, opts.Live = filepath.Dir(decisions.Path()), dir, false
	e, err := engine.New(ctx, engine.Options(opts))
	if err != nil {
		return nil, err
	}
	g := e.Current()
	problems = e.Problems()
	if err := e.Reloader().Builder.Try(ctx, nil, g.Config, g.Plugins); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !slices.ContainsFunc(problems,
				func(p string) bool { return strings.Contains(p, strings.TrimSuffix(line, ".")) }) {
				problems = append(problems, line)
			}
		}
	}
	return problems, e.Close()
}

// Problem describes one mistake in a configuration.
type Problem = config.Problem

// Problems splits an error from [Validate] or [host.New] into problems. If the error has no position in a file, the
// result is a single problem.
func Problems(err error) []Problem {
	out := []Problem{}
	var one *config.Error
	var all interface{ Unwrap() []error }
	switch {
	case err == nil:
	case errors.As(err, &all):
		for _, e := range all.Unwrap() {
			out = append(out, Problems(e)...)
		}
	case errors.As(err, &one):
		out = append(out, one.List()...)
	default:
		out = append(out, Problem{Severity: "error", Summary: err.Error()})
	}
	return out
}

// Files returns the configuration files that [Format] can format. These are all files in the native syntax of HCL.
func Files(path string) ([]string, error) {
	if path == "" {
		return nil, errors.New("no configuration file was found, only the built-in configuration: name a file")
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

// Format returns a configuration file in the canonical format. If the file is not valid HCL, the error names the file,
// the line and the reason.
func Format(name string, src []byte) ([]byte, error) { return config.Format(name, src) }

// LoadPermissionTests reads a file of permission tests.
func LoadPermissionTests(file string) ([]host.PermissionTest, error) { return config.LoadTests(file) }
