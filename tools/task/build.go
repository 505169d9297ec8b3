package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/tools/project"
)

// program describes one binary of the build.
type program struct {
	pkg, out string
	// entry is the entry point of the program on Linux. An empty entry means the default entry point.
	entry string
	tags  string // build tags
	vars  string // a variable that the linker sets, as NAME=VALUE
}

// compile builds programs. Like all commands of [run], it does not use cgo, so that the programs need no system
// libraries and start sooner.
func (t *task) compile(programs ...program) error {
	for _, p := range programs {
		flags := "-ldflags=-s -w" + onPlatform(p.entry)
		if p.vars != "" {
			flags += " -X " + p.vars
		}
		if err := t.run(nil, "go", "build", "-tags="+p.tags, flags, "-o", p.out, p.pkg); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) build() error {
	programs := []program{
		{pkg: "./host/cmd/toolhost", out: "bin/toolhost", entry: project.Entry},
		{pkg: "./sandbox/cmd/toolhost-sandbox", out: "bin/toolhost-sandbox", entry: project.Entry},
		{pkg: "./host/cmd/toolhost-shim", out: "bin/toolhost-shim", entry: project.Entry},
		{pkg: "./host/cmd/toolhost-coordinator", out: "bin/toolhost-coordinator"},
	}
	for _, name := range t.Plugins {
		programs = append(programs, program{pkg: "./plugins/" + name, out: "bin/plugins/" + name})
	}
	// Copy the manifests before the binaries are built, because a running host reloads when a binary changes.
	if err := t.copyManifests(); err != nil {
		return err
	}
	return t.compile(programs...)
}

// copyManifests copies the manifests of the plugins to the directory of their binaries. It removes the manifests of
// plugins that no longer exist.
func (t *task) copyManifests() error {
	if err := os.MkdirAll(t.Path("bin/plugins"), 0o755); err != nil { //nolint:gosec // the build's output
		return err
	}
	old, err := filepath.Glob(t.Path("bin/plugins/*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if !slices.Contains(t.Plugins, strings.TrimSuffix(filepath.Base(path), ".json")) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for _, name := range t.Plugins {
		b, readErr := os.ReadFile(t.Path("plugins/" + name + "/" + project.Manifest))
		err = errors.Join(err, readErr, os.WriteFile(t.Path("bin/plugins/"+name+".json"), b, 0o644)) //nolint:gosec // the build's output
	}
	return err
}

func (t *task) demo() error { return t.run(nil, "./demo.sh") }

// demoFleet starts a fleet, which runs until the user ends it.
func (t *task) demoFleet() error { return t.run(nil, "./demo-fleet.sh") }

func (t *task) bench() error {
	if err := t.compile(program{pkg: "./bench", out: "bin/bench/bench"}, program{pkg: "./bench/internal/bareplugin", out: "bin/bench/bareplugin"},
		program{pkg: "./bench/internal/barehost", out: "bin/bench/barehost"}, program{pkg: "./bench/internal/flood", out: "bin/bench/flood"}); err != nil {
		return err
	}
	return t.run(nil, t.Path("bin/bench/bench"), strings.Fields(t.getenv("SUITE"))...)
}

func (t *task) clean() error {
	var errs []error
	for _, dir := range []string{"bin", "dist", "bench/peers/node_modules", "bench/peers/debian"} {
		errs = append(errs, os.RemoveAll(t.Path(dir)))
	}
	return errors.Join(errs...)
}

// pinnedDir is the directory with the development tools.
const pinnedDir = "bin/pinned"

// tools builds the development tools at the versions in tools/go.mod.
func (t *task) tools() error {
	entry, err := t.cacheEntry("tools", "tools/go.mod", "tools/go.sum")
	if err != nil {
		return err
	}
	err = t.once(entry, func(dir string) error {
		return t.command("tools", standalone, "go", "build", "-o", dir+string(filepath.Separator), "tool").Run()
	})
	return errors.Join(err, t.link(pinnedDir, entry))
}
