package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"toolhost.dev/tools/dist"
)

func (t *task) dist() error {
	if err := t.nodeModules(); err != nil {
		return err
	}
	return dist.Make(t.Project, t.Path("dist"), dist.Platforms)
}

// packages writes the packages for authors of plugins to the directory that the environment variable OUT names.
func (t *task) packages() error {
	if err := t.nodeModules(); err != nil {
		return err
	}
	return dist.Packages(t.Project, t.setting("OUT", t.Path("dist/packages")))
}

// checkDist creates a release for this platform twice. It checks that both releases are identical, complete and usable.
func (t *task) checkDist() error {
	tmp, err := os.MkdirTemp("", "toolhost-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a temporary directory
	if err := t.nodeModules(); err != nil {
		return err
	}
	first, second := filepath.Join(tmp, "1"), filepath.Join(tmp, "2")
	for _, dir := range []string{first, second} {
		if err := dist.Make(t.Project, dir, []string{runtime.GOOS + "/" + runtime.GOARCH}); err != nil {
			return err
		}
	}
	if err := t.same("two archives of the same commit differ", first, second); err != nil {
		return err
	}
	program, err := t.tryArchive(first)
	if err != nil {
		return err
	}
	if err := t.peersDebian(); err != nil { // the wheel needs gRPC for Python
		return err
	}
	python, err := t.debianPython()
	if err != nil {
		return err
	}
	if err := dist.TryPackages(t.Project, first, dist.Judge{Program: program, Python: python}); err != nil {
		return err
	}
	return dist.TryProxy(t.Project, filepath.Join(first, dist.Proxy))
}

// tryArchive unpacks the only program archive in a directory, runs the program toolhost from it and returns the path of
// the program.
func (t *task) tryArchive(dir string) (string, error) {
	if err := in(dir, "sha256sum", "--check", "--quiet", "SHA256SUMS"); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "toolhost_*.tar.gz"))
	if err != nil || len(archives) != 1 {
		return "", errors.Join(err, fmt.Errorf("%s: want one archive, have %q", dir, archives))
	}
	if err := in(dir, "tar", "xzf", archives[0]); err != nil {
		return "", err
	}
	unpacked := archives[0][:len(archives[0])-len(".tar.gz")]
	files := []string{"README.md", "LICENSE", "config.hcl", "sbom.cdx.json", "toolhost-shim", "toolhost-sandbox", "toolhost-coordinator", "man/man1/toolhost.1", "sdk/go.mod", "sdk/doc.go", "sdk/statedb/go.mod"}
	for _, p := range t.Plugins {
		files = append(files, "plugins/"+p, "plugins/"+p+".json")
	}
	for _, f := range files {
		if st, err := os.Stat(filepath.Join(unpacked, f)); err != nil || st.Size() == 0 {
			return "", fmt.Errorf("the archive has no %s", f)
		}
	}
	state := filepath.Join(dir, "state")
	err = errors.Join(
		in(unpacked, "./toolhost", "version"),
		in(unpacked, "./toolhost", "--state", state, "run", "read README.md --limit 1"),
		in(unpacked, "./toolhost", "--state", state, "run", "echo from the shell"),
	)
	if err != nil {
		return "", err
	}
	return filepath.Join(unpacked, "toolhost"), tryForeign(unpacked, state)
}

// tryForeign replaces a bundled plugin with another program, and checks that the host refuses this program. The host
// recognizes the plugins of its release by their content.
func tryForeign(unpacked, state string) error {
	other, err := os.ReadFile(filepath.Join(unpacked, "plugins", "ask"))
	if err == nil {
		other = append(other, 0)                                                     // new content: the host lists the tools of known content without a start
		err = os.WriteFile(filepath.Join(unpacked, "plugins", "bash"), other, 0o755) //nolint:gosec // it is a program
	}
	if err != nil {
		return err
	}
	c := exec.Command("./toolhost", "--state", state, "run", "echo from the shell") //nolint:gosec // the state is a directory of this check
	c.Dir = unpacked
	out, err := c.CombinedOutput()
	if want := "is not the program of the bundled plugin bash"; err == nil || !strings.Contains(string(out), want) {
		return fmt.Errorf("a foreign program in place of a bundled plugin: want %q, got\n%s", want, out)
	}
	return nil
}
