package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// protocol generates the Go code of the plugin protocol, and of the protocol between the nodes of a fleet. The
// arguments are the output directories, relative to the root or absolute.
func (t *task) protocol(sdk, legacy, fleet string) error {
	path := []string{"PATH=" + t.Path(pinnedDir) + string(os.PathListSeparator) + os.Getenv("PATH")}
	buf := func(dir string, args ...string) error {
		c := t.command(".", path, t.tool("buf"), args...)
		c.Dir = dir
		return c.Run()
	}
	return errors.Join(
		buf(sdk, "lint"),
		buf(sdk, "generate"),
		buf(sdk, "build", "--exclude-source-info", "-o", filepath.Join(sdk, "node/src/protocol.binpb")),
		buf(legacy, "generate", sdk+"/proto", "--path", sdk+"/proto/toolhost/v1", "--template", t.Path("examples/legacy/buf.gen.yaml")),
		buf(fleet, "lint"),
		buf(fleet, "generate"),
	)
}

// pythonSDK is the path of the SDK for Python, which is a single file. The scaffold and the example contain copies of
// it, so that a plugin in Python can be built without a package index.
const pythonSDK = "sdk/python/src/toolhost_sdk/__init__.py"

var copiesOfPythonSDK = []string{"examples/python/toolhost_plugin.py", "host/scaffold/files/python/toolhost_plugin.py"}

// generate generates the code of the protocol first, because the program that prints the reference is built with it.
func (t *task) generate() error {
	if err := t.tools(); err != nil {
		return err
	}
	if err := t.protocol(t.Path("sdk"), t.Path("examples/legacy"), t.Path("host/fleet")); err != nil {
		return err
	}
	for _, to := range copiesOfPythonSDK { // copy before the build, because the build embeds the scaffold
		if err := t.run(nil, "cp", pythonSDK, to); err != nil {
			return err
		}
	}
	if err := t.build(); err != nil {
		return err
	}
	return t.run(nil, "bin/toolhost", "reference", "docs/reference")
}

// checkGenerated generates the protocol code in a temporary directory and compares the result with the tracked files.
func (t *task) checkGenerated() error {
	if err := t.tools(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "toolhost-generated")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	if err := os.MkdirAll(filepath.Join(dir, "node/src"), 0o700); err != nil {
		return err
	}
	if err := t.run(nil, "cp", "-r", "sdk/proto", "sdk/buf.yaml", "sdk/buf.gen.yaml", dir); err != nil {
		return err
	}
	fleet := filepath.Join(dir, "fleet")
	if err := t.run(nil, "mkdir", fleet); err != nil {
		return err
	}
	if err := t.run(nil, "cp", "-r", "host/fleet/proto", "host/fleet/buf.yaml", "host/fleet/buf.gen.yaml", fleet); err != nil {
		return err
	}
	err = t.protocol(dir, dir, fleet)
	// Check that hosts and plugins of the last release understand the messages of this version.
	breaking := t.command(".", nil, t.tool("buf"), "breaking", "--against", "proto/released.binpb")
	breaking.Dir = t.Path("sdk")
	errs := []error{err, breaking.Run()}
	current := func(a, b string) {
		errs = append(errs, t.same("generated code is not current (make generate)", a, b))
	}
	current(dir+"/node/src/protocol.binpb", "sdk/node/src/protocol.binpb")
	current(dir+"/toolpb", "sdk/toolpb")
	current(dir+"/legacypb", "examples/legacy/legacypb")
	current(fleet+"/fleetpb", "host/fleet/fleetpb")
	for _, to := range copiesOfPythonSDK {
		current(pythonSDK, to)
	}
	return errors.Join(errs...)
}

// checkReference generates the reference in a temporary directory and compares the result with the tracked files.
func (t *task) checkReference() error {
	dir, err := os.MkdirTemp("", "toolhost-reference")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	if err := t.run(nil, "bin/toolhost", "reference", dir); err != nil {
		return err
	}
	return t.same("docs/reference is not current (make generate)", "docs/reference", dir)
}

// same compares two directories. If they differ, it returns an error that contains the argument "problem" and
// the differences.
func (t *task) same(problem, a, b string) error {
	c := t.command(".", nil, "diff", "-ru", a, b)
	var out strings.Builder
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return errors.New(out.String() + problem)
	}
	return nil
}
