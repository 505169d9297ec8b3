// Package project describes the repository for the programs that build it. [Open] finds the repository.
package project

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Project describes the repository.
type Project struct {
	// Root is the absolute path of the repository.
	Root string
	// Modules lists the directories of the workspace's modules, relative to Root and sorted.
	Modules []string
	// Outside lists the directories of all other modules, relative to Root and sorted.
	Outside []string
	// Plugins lists the names of the bundled plugins, sorted. A bundled plugin has a manifest in plugins/NAME.
	Plugins []string
}

// Entry is the entry point of bin/toolhost, bin/toolhost-sandbox and bin/toolhost-shim on Linux. The host's entry point
// reduces the number of wake-ups in Go's runtime. The sandbox's entry point joins namespaces. The shim's entry point
// runs without the runtime.
const Entry = "main.entry"

// BundledTable is the variable of the host that lists the programs of the bundled plugins. The linker sets it in
// releases to the result of [Table].
const BundledTable = "toolhost.dev/host/internal/manifest.table"

// Table returns the value of [BundledTable] for the given programs of the bundled plugins. The keys of the map are the
// names of the plugins.
func Table(programs map[string][]byte) string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		entries = append(entries, fmt.Sprintf("%s:%d:%x", name, len(programs[name]), sha256.Sum256(programs[name])))
	}
	return strings.Join(entries, ",")
}

// Open returns the repository that contains the directory dir.
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

// readWorkspace reads the list of modules in go.work.
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

// This list contains the names of directories that are not searched for modules. Some of them contain generators for
// manual use.
var skipped = []string{".git", "bin", "node_modules", "debian", "testdata", "files", "gen"}

// findModules finds the bundled plugins and the modules that go.work does not list.
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
	manifests, err := filepath.Glob(p.Path("plugins/*/" + Manifest))
	for _, m := range manifests {
		p.Plugins = append(p.Plugins, filepath.Base(filepath.Dir(m)))
	}
	return err
}

// Manifest is the name of the manifest in a plugin's directory.
const Manifest = "toolhost-plugin.json"

// CheckPlugins checks that go.work lists exactly the modules of the bundled plugins below the directory plugins. It
// also compares the names and versions in the manifests with the directories and sources.
func (p *Project) CheckPlugins() error {
	var errs []error
	for _, name := range p.Plugins {
		if !slices.Contains(p.Modules, "plugins/"+name) {
			errs = append(errs, fmt.Errorf("plugins/%s: not in go.work; run go work use ./plugins/%s", name, name))
		}
		errs = append(errs, p.checkManifest(name))
	}
	for _, m := range slices.Concat(p.Modules, p.Outside) {
		if name, ok := strings.CutPrefix(m, "plugins/"); ok && !slices.Contains(p.Plugins, name) {
			errs = append(errs, fmt.Errorf("%s: no %s; write one as in plugins/read", m, Manifest))
		}
	}
	return errors.Join(errs...)
}

func (p *Project) checkManifest(name string) error {
	dir := "plugins/" + name
	b, err := os.ReadFile(p.Path(dir + "/" + Manifest))
	if err != nil {
		return err
	}
	var m struct{ Name, Version string }
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("%s/%s: %w", dir, Manifest, err)
	}
	if m.Name != name {
		return fmt.Errorf("%s/%s: the name is %q; use that of the directory", dir, Manifest, m.Name)
	}
	for _, pattern := range []string{"/*.go", "/*/*.go"} {
		files, err := filepath.Glob(p.Path(dir + pattern))
		if err != nil {
			return err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if v := pluginVersion.FindSubmatch(b); v != nil && string(v[1]) != m.Version {
				return fmt.Errorf("%s/%s: the version is %q, but the sources have %q", dir, Manifest, m.Version, v[1])
			}
		}
	}
	return nil
}

// pluginVersion matches the version in a plugin's sources.
var pluginVersion = regexp.MustCompile(`(?m)(?:^const Version = |Plugin\{.*Version: )"([^"]+)"`)

// Path converts a slash-separated path relative to the root to an absolute path.
func (p *Project) Path(slash string) string { return filepath.Join(p.Root, filepath.FromSlash(slash)) }

// SDK returns the paths of the Go sources of the SDK, relative to the root. A release and an installation contain them
// beside the programs, so that new plugins are built without a download of the SDK.
func (p *Project) SDK() (paths []string, err error) {
	err = filepath.WalkDir(p.Path("sdk"), func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(p.Root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case d.IsDir() && (rel == "sdk/node" || rel == "sdk/python" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Type().IsRegular() && (strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go") || d.Name() == "go.mod" || d.Name() == "go.sum" || d.Name() == "LICENSE"):
			paths = append(paths, rel)
		}
		return nil
	})
	return paths, err
}

// Packages returns the package patterns of all modules in the workspace, for the go command.
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

// BuildPackage returns the import path of the package whose variables commit and committed are set by the linker.
func (p *Project) BuildPackage() (string, error) {
	dir, _, err := p.find(commitVar)
	return "toolhost.dev/" + dir, err
}

// find returns the only match of the expression re in the sources of the host's build information. It also returns the
// directory of the file with the match. If re has a group, find returns only the text of the group.
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
