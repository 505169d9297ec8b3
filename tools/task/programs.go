package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"toolhost.dev/tools/project"
)

// testPrograms builds the programs that tests start, unless they have been built from the same sources, and prints
// their directory.
func (t *task) testPrograms() error {
	dir, err := t.buildTestPrograms()
	if err == nil {
		fmt.Fprintln(t.out, dir)
	}
	return err
}

// buildTestPrograms builds the programs that tests start. It returns their directory in the user's cache, whose name
// contains a hash of their sources. Thus Go runs tests again that use these programs if a source has changed, and only
// then.
func (t *task) buildTestPrograms() (string, error) {
	sources, err := t.programSources()
	if err != nil {
		return "", err
	}
	entry, err := t.cacheEntry("programs", sources...)
	if err != nil {
		return "", err
	}
	return entry, t.once(entry, func(dir string) error {
		var errs []error
		for _, p := range t.programs() {
			p.out = filepath.Join(dir, p.out)
			errs = append(errs, t.compile(p))
		}
		for _, name := range t.Plugins {
			b, err := os.ReadFile(t.Path("plugins/" + name + "/" + project.Manifest))
			errs = append(errs, err, os.WriteFile(filepath.Join(dir, "plugins", name+".json"), b, 0o644)) //nolint:gosec // the build's output
		}
		return errors.Join(append(errs, t.command("examples/legacy", standalone, "go", "build", "-o", filepath.Join(dir, "legacy"), ".").Run(), t.fillGoCache(dir))...)
	})
}

// fillGoCache compiles what a small Go program needs of the standard library. A test builds such a program in
// sandboxes, where the user's cache is not accessible.
func (t *task) fillGoCache(dir string) error {
	source, err := os.MkdirTemp("", "hello")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source) //nolint:errcheck // a temporary directory
	err = errors.Join(os.WriteFile(filepath.Join(source, "go.mod"), []byte("module m\ngo 1.21\n"), 0o600), os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\nfunc main() {}\n"), 0o600))
	if err != nil {
		return err
	}
	c := exec.Command("go", "build", "-o", os.DevNull, ".") //nolint:gosec // the go command
	c.Dir, c.Stdout, c.Stderr = source, t.out, t.out
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "CGO_ENABLED=1", "GOCACHE="+filepath.Join(dir, "go-cache"))
	return c.Run()
}

// programs lists the programs that tests start. A bundled plugin with roles is also built with other names of its tools,
// as the plugin of somebody else.
func (t *task) programs() []program {
	list := []program{
		{pkg: "./host/cmd/toolhost", out: "toolhost", entry: project.Entry},
		{pkg: "./sandbox/cmd/toolhost-sandbox", out: "toolhost-sandbox", entry: project.Entry},
		{pkg: "./host/cmd/toolhost-shim", out: "toolhost-shim", entry: project.Entry},
		{pkg: "./host/cmd/toolhost-shim", out: "plain/toolhost-shim"},
		{pkg: "./host/cmd/toolhost-coordinator", out: "toolhost-coordinator"},
		{pkg: "./host/cmd/internal/testplugin", out: "testplugin"},
		{pkg: "./host/cmd/internal/testserver", out: "testserver"},
		{pkg: "./host/cmd/internal/testclient", out: "testclient"},
		{pkg: "./sdk/tooltest/conformance/internal/broken", out: "broken"},
		{pkg: "github.com/modelcontextprotocol/go-sdk/conformance/everything-server", out: "everything"},
		{pkg: "github.com/nats-io/nats-server/v2", out: "nats-server"},
		{pkg: "./host/cmd/toolhost", out: "toolhost-control", tags: "failpoints", vars: "toolhost.dev/host/fleet.controls=yes"},
	}
	if runtime.GOOS == "linux" {
		list = append(list, program{pkg: "./sandbox/internal/testescape", out: "testescape"})
	}
	for _, name := range t.Plugins {
		list = append(list, program{pkg: "./plugins/" + name, out: "plugins/" + name})
		renamed := "./plugins/" + name + "/internal/renamed"
		if _, err := os.Stat(t.Path(renamed)); err == nil {
			list = append(list, program{pkg: renamed, out: "renamed/" + name})
		}
	}
	return list
}

// programSources returns the files from which the programs are built, relative to the root.
func (t *task) programSources() ([]string, error) {
	files, err := t.files(append([]string{"go.work", "go.work.sum", "examples/legacy"}, t.Modules...)...)
	return slices.DeleteFunc(files, isTestFile), err
}

// files returns the files and symbolic links below some paths that git does not ignore. Without paths, it returns all
// of them. All paths are relative to the root.
func (t *task) files(paths ...string) ([]string, error) {
	list, err := exec.Command("git", append([]string{"-C", t.Root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, paths...)...).Output() //nolint:gosec // a list of files
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w; tests need a clone of the repository", err)
	}
	var files []string
	for path := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		info, err := os.Lstat(t.Path(string(path)))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, string(path))
	}
	return files, nil
}

// isTestFile reports whether no program is built from a file, because only tests use it.
func isTestFile(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") || strings.Contains(path, "/testdata/")
}
