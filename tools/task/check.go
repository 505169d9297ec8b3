package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// all returns the directories of all modules.
func (t *task) all() []string { return slices.Concat(t.Modules, t.Outside) }

func (t *task) checkFormat() error {
	var out bytes.Buffer
	c := t.command(".", nil, "gofmt", append([]string{"-l"}, t.all()...)...)
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return err
	}
	if out.Len() > 0 {
		return errors.New("not formatted (make fix-format):\n" + strings.TrimSpace(out.String()))
	}
	return nil
}

func (t *task) fixFormat() error { return t.run(nil, "gofmt", append([]string{"-w"}, t.all()...)...) }

func (t *task) checkTidy() error {
	for _, m := range t.all() {
		c := t.command(m, standalone, "go", "mod", "tidy", "-diff")
		c.Stdout = nil
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s/go.mod is not tidy (make fix-tidy)", m)
		}
	}
	return nil
}

func (t *task) fixTidy() error { return t.each(t.all(), standalone, "go", "mod", "tidy") }

// checkVet runs go vet without -trimpath. With -trimpath, go vet would reuse cached findings from another clone of the
// repository, and print the paths of that clone.
func (t *task) checkVet() error {
	env := []string{"GOFLAGS=" + strings.TrimSuffix(os.Getenv("GOFLAGS"), "-trimpath")}
	if err := t.run(env, "go", slices.Concat([]string{"vet", "-tags=oracle,docs"}, t.Packages())...); err != nil {
		return err
	}
	return t.each(t.Outside, append(env, standalone...), "go", "vet", "./...")
}

func (t *task) checkLint() error {
	if err := t.tools(); err != nil {
		return err
	}
	env, err := t.lintEnv()
	if err != nil {
		return err
	}
	lint := []string{"run", "--allow-parallel-runners"}
	if err := t.run(env, t.tool("golangci-lint"), slices.Concat(lint, t.Packages())...); err != nil {
		return err
	}
	return t.each(t.Outside, append(env, standalone...), t.tool("golangci-lint"), append(lint, "./...")...)
}

// lintEnv returns the environment of golangci-lint. Its cache keeps findings with paths relative to a module, under the
// import path of the package. When a directory becomes a module, these paths are wrong, so each list of modules has a
// cache of its own.
func (t *task) lintEnv() ([]string, error) {
	cache, err := t.cacheEntry("lint", "go.work")
	return []string{"GOLANGCI_LINT_CACHE=" + cache}, err
}

func (t *task) fixLint() error {
	if err := t.tools(); err != nil {
		return err
	}
	env, err := t.lintEnv()
	if err != nil {
		return err
	}
	return errors.Join(t.each(t.Modules, env, t.tool("golangci-lint"), "run", "--fix", "./..."),
		t.each(t.Outside, append(env, standalone...), t.tool("golangci-lint"), "run", "--fix", "./..."))
}

// checkConfig validates the example configuration.
func (t *task) checkConfig() error {
	c := t.command(".", nil, "bin/toolhost", "config", "validate", "--config", "config.hcl")
	c.Stdout = nil
	return c.Run()
}

// maxFile is the maximum size of a tracked file, in bytes.
const maxFile = 1 << 20

// checkSize checks the size of all tracked files except the compiled grammars.
func (t *task) checkSize() error {
	files, err := t.tracked()
	if err != nil {
		return err
	}
	return t.tooLarge(files)
}

// tracked returns the paths of the files that git tracks, relative to the root.
func (t *task) tracked() ([]string, error) {
	var out bytes.Buffer
	c := t.command(".", nil, "git", "ls-files", "-z")
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00"), nil
}

func (t *task) tooLarge(files []string) error {
	var errs []error
	for _, f := range files {
		if ok, err := filepath.Match("plugins/grep/grammar/wasm/*", f); err != nil || ok {
			continue
		}
		st, err := os.Lstat(t.Path(f))
		if errors.Is(err, os.ErrNotExist) { // the file was deleted, but the deletion is not yet committed
			continue
		}
		if err != nil {
			errs = append(errs, err)
		} else if st.Size() > maxFile {
			errs = append(errs, fmt.Errorf("%s: tracked with %d bytes, the limit is %d; remove it with git rm --cached", f, st.Size(), maxFile))
		}
	}
	return errors.Join(errs...)
}

// checkPlugins checks that go.work, the bundled plugins and their manifests agree.
func (t *task) checkPlugins() error { return t.CheckPlugins() }
