// Package project describes the repository to the programs that build it. [Open] finds it.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Project is the repository.
type Project struct {
	// Root is its absolute directory.
	Root string
	// Modules are the directories of the workspace's modules, relative to the root and sorted.
	Modules []string
	// Outside are the directories of the other modules.
	Outside []string
	// Plugins are the names of the bundled plugins, sorted.
	Plugins []string
}

// HostEntry is the entry point of bin/toolhost on Linux. It makes Go's runtime wake up less often.
const HostEntry = "toolhost.dev/host/timerslack.Entry"

// ShimEntry is the entry point of bin/toolhost-shim on Linux. It starts without Go's runtime.
const ShimEntry = "main.entry"

// Open describes the repository that holds the directory dir.
func Open(dir string) (*Project, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		parent := filepath.Dir(root)
		if parent == root {
			return nil, fmt.Errorf("%s: no go.work here or above; run this in the repository", dir)
		}
		root = parent
	}
	p := &Project{Root: root}
	if err := p.readWorkspace(); err != nil {
		return nil, err
	}
	return p, p.findModules()
}

// readWorkspace reads the modules that go.work lists.
func (p *Project) readWorkspace() error {
	path := filepath.Join(p.Root, "go.work")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(path, b, nil)
	if err != nil {
		return err
	}
	for _, u := range work.Use {
		p.Modules = append(p.Modules, filepath.ToSlash(filepath.Clean(u.Path)))
	}
	slices.Sort(p.Modules)
	return nil
}

// skipped are directories without sources of this project.
var skipped = []string{".git", "bin", "dist", "node_modules", "debian", "testdata", "files"}

// findModules finds the modules that go.work does not list, and the bundled plugins.
func (p *Project) findModules() error {
	err := filepath.WalkDir(p.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != p.Root && slices.Contains(skipped, d.Name()) {
			return filepath.SkipDir
		}
		if d.Name() != "go.mod" {
			return nil
		}
		dir, err := filepath.Rel(p.Root, filepath.Dir(path))
		if dir = filepath.ToSlash(dir); err == nil && !slices.Contains(p.Modules, dir) {
			p.Outside = append(p.Outside, dir)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range p.Modules {
		if name, ok := strings.CutPrefix(m, "plugins/"); ok {
			p.Plugins = append(p.Plugins, name)
		}
	}
	return nil
}

// Path returns the absolute path of a file in the repository.
func (p *Project) Path(slash string) string { return filepath.Join(p.Root, filepath.FromSlash(slash)) }

// Packages returns the patterns of all packages in the workspace, for the go command.
func (p *Project) Packages() []string {
	var out []string
	for _, m := range p.Modules {
		out = append(out, "./"+m+"/...")
	}
	return out
}

var (
	versionConst = regexp.MustCompile(`(?m)^(?:const\s+|\t)Version\s*=\s*"([^"]+)"`)
	commitVar    = regexp.MustCompile(`(?m)^var commit, committed string$`)
)

// Version returns the version of the sources.
func (p *Project) Version() (string, error) {
	_, version, err := p.find(versionConst)
	return version, err
}

// BuildPackage returns the import path of the package whose variables commit and committed the linker sets.
func (p *Project) BuildPackage() (string, error) {
	dir, _, err := p.find(commitVar)
	return "toolhost.dev/" + dir, err
}

// find returns the only match of re in the host's build information, and its directory. The
// result is the first group of re, if it has one.
func (p *Project) find(re *regexp.Regexp) (dir, found string, err error) {
	matches := 0
	for _, d := range []string{"host", "host/internal/build"} {
		files, err := filepath.Glob(filepath.Join(p.Path(d), "*.go"))
		if err != nil {
			return "", "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", "", err
			}
			if m := re.FindSubmatch(b); m != nil && !strings.HasSuffix(f, "_test.go") {
				dir, found, matches = d, string(m[len(m)-1]), matches+1
			}
		}
	}
	if matches != 1 {
		return "", "", errors.New(re.String() + ": want one match in host and host/internal/build, have " + fmt.Sprint(matches))
	}
	return dir, found, nil
}
