package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"
)

// Directory is the directory of the bundled plugins. It reads each manifest at most once. It is not safe for concurrent
// use.
type Directory struct {
	path  string
	read  map[string]found
	links func() (resolved string, err error) // the path without symbolic links
	names func() []string
}

type found struct {
	manifest *Manifest
	err      error
}

// OpenDirectory returns the directory of the bundled plugins at a path. It need not exist. An empty path means that
// there are no bundled plugins.
func OpenDirectory(path string) *Directory {
	return &Directory{
		path: path, read: make(map[string]found),
		links: sync.OnceValues(func() (string, error) { return filepath.EvalSymlinks(path) }),
		names: sync.OnceValue(func() []string { return list(path) }),
	}
}

func list(path string) (names []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && tool.ValidName(name) {
			names = append(names, name)
		}
	}
	return names
}

// Names returns the names of the bundled plugins that have a manifest, sorted.
func (d *Directory) Names() []string { return d.names() }

// BundledFile returns the path of a bundled plugin's manifest. The argument "dir" is the directory of the bundled
// plugins. The build writes the manifest beside the binary.
func BundledFile(dir, name string) string { return filepath.Join(dir, name+".json") }

// Bundled returns how the host uses a bundled plugin. It returns the zero value if the plugin has no manifest.
func (d *Directory) Bundled(name string) (Bundled, error) {
	m, err := d.manifest(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Bundled{}, nil
	case err != nil:
		return Bundled{}, err
	case m.Name != name:
		return Bundled{}, fmt.Errorf("%s:%d: the manifest belongs to plugin %q; build %s again", BundledFile(d.path, name), m.nameLine, m.Name, name)
	case m.Bundled == nil:
		return Bundled{}, nil
	}
	return *m.Bundled, nil
}

// Tools returns the names of the tools of a bundled plugin, or nil if it has no manifest.
func (d *Directory) Tools(name string) []string {
	m, err := d.manifest(name)
	if err != nil || m.Name != name || m.Bundled == nil {
		return nil
	}
	return m.Tools
}

// Offered returns the manifest of a bundled plugin that the built-in configuration omits. It returns nil for other
// plugins, and if the manifest cannot be read.
func (d *Directory) Offered(name string) *Manifest {
	m, err := d.manifest(name)
	if err != nil || m.Name != name || m.Bundled == nil || m.Bundled.Default > 0 {
		return nil
	}
	return m
}

func (d *Directory) manifest(name string) (*Manifest, error) {
	if d.path == "" || !tool.ValidName(name) { // a name with slashes could lead into a workspace
		return nil, fs.ErrNotExist
	}
	f, known := d.read[name]
	if !known {
		f.manifest, f.err = readFile(BundledFile(d.path, name))
		d.read[name] = f
	}
	return f.manifest, f.err
}
