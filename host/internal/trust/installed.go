package trust

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
)

// ThisPlatform returns the platform of this program, such as "linux/amd64".
func ThisPlatform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Installed finds the program of a plugin with a source: the lock file selects the version, and the store has the
// files. It never reaches the network. The configuration calls it as [config.Environment.Installed].
func Installed(configPath, plugin, src string) config.Installation {
	path, err := PathFor(configPath)
	if err != nil {
		return config.Installation{Missing: err.Error()}
	}
	lock, err := Read(path)
	if err != nil {
		return config.Installation{Missing: err.Error()}
	}
	s, err := artifact.UserStore()
	if err != nil {
		return config.Installation{Missing: err.Error()}
	}
	pin, ok := lock.Plugins[plugin]
	none := config.Installation{Path: filepath.Join(s.Root(), "content", "none", plugin)}
	if !ok || pin.Source != src {
		none.Missing = fmt.Sprintf("%s is not in the lock file %s yet; run toolhost plugin install", src, path)
		return none
	}
	out := config.Installation{Path: none.Path, Version: pin.Version, Tools: slices.Sorted(maps.Keys(pin.Tools))}
	build, ok := pin.Platforms[ThisPlatform()]
	if !ok {
		out.Missing = fmt.Sprintf("version %s of %s has no build for %s, only for %s", pin.Version, src, ThisPlatform(),
			strings.Join(slices.Sorted(maps.Keys(pin.Platforms)), ", "))
		return out
	}
	out.Path = filepath.Join(s.Dir(build.Content), pin.Base())
	if _, err := os.Stat(out.Path); err != nil {
		out.Missing = fmt.Sprintf("version %s is in %s, but is not installed here; run toolhost plugin install", pin.Version, filepath.Base(path))
	}
	return out
}

// InstalledPackage finds the program of an MCP server that is a package. It is the function of
// [config.Environment.InstalledPackage].
func InstalledPackage(configPath, field, spec string) config.PackageInstallation {
	missing := func(format string, a ...any) config.PackageInstallation {
		return config.PackageInstallation{Missing: fmt.Sprintf(format, a...)}
	}
	path, err := PathFor(configPath)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return missing("%v", err)
	}
	lock, err := Read(path)
	if err != nil {
		return missing("%v", err)
	}
	pin, ok := lock.Packages[field]
	if !ok || pin.Package != spec {
		return missing("%s is not in the lock file %s yet; run toolhost plugin install", spec, path)
	}
	s, err := artifact.UserStore()
	if err != nil {
		return missing("%v", err)
	}
	record, err := s.Record(path)
	if err != nil {
		return missing("%v", err)
	}
	tree := record.Trees[pin.Lock]
	if tree == "" || !s.Has(tree) {
		return missing("version %s is in %s, but is not installed here; run toolhost plugin install", pin.Version, filepath.Base(path))
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return missing("it needs node, which is not installed")
	}
	dir := s.Dir(tree)
	return config.PackageInstallation{Command: []string{node, filepath.Join(dir, pin.Program)}, Dir: dir}
}

// installedPin returns the pin of a plugin whose program is in the store. The pin is the current or the
// previous entry of the plugin in the lock file. A host needs the previous entry while an upgrade is being applied,
// because it can still start the old version.
func (p *Pins) installedPin(plugin, path string, locked Pin) (Pin, error) {
	s, err := artifact.UserStore()
	if err != nil {
		return Pin{}, err
	}
	content := s.ContentOf(path)
	if content == "" || locked.Platforms[ThisPlatform()].Content == content {
		return locked, nil
	}
	abs, err := filepath.Abs(p.path)
	if err != nil {
		return Pin{}, err
	}
	record, err := s.Record(abs)
	if err != nil {
		return Pin{}, err
	}
	var before Pin
	if raw, ok := record.Previous[plugin]; ok && json.Unmarshal(raw, &before) == nil &&
		before.Platforms[ThisPlatform()].Content == content {
		return before, nil
	}
	return locked, nil
}

// sum returns the SHA-256 of the pinned program in hexadecimal.
func (p *Pin) sum() string {
	if p.Source == "" {
		return p.SHA256
	}
	return strings.TrimPrefix(p.Platforms[ThisPlatform()].Entry, "sha256:")
}

// Sum returns the SHA-256 of the pinned program for this platform, in hexadecimal.
func (p *Pin) Sum() string { return p.sum() }

// Binary returns the absolute path of the pinned program. lock is the path of the lock file.
func (p *Pin) Binary(lock string) string {
	if p.Source != "" {
		if s, err := artifact.UserStore(); err == nil {
			return filepath.Join(s.Dir(p.Platforms[ThisPlatform()].Content), p.Base())
		}
	}
	if abs, err := filepath.Abs(lock); err == nil && !filepath.IsAbs(p.Path) {
		return filepath.Join(filepath.Dir(abs), filepath.FromSlash(p.Path))
	}
	return p.Path
}

// checkInstalled returns an error if the program of an installed plugin differs from its pin. The program runs from the
// store and not from a copy, because it needs the files beside it, and tools cannot write the store.
func (p *Pins) checkInstalled(path, sum string) error {
	now, err := p.hash(path)
	if err != nil {
		return fmt.Errorf("its program cannot be compared with the lock file: %w", err)
	}
	if is := hex.EncodeToString(now[:]); is != sum {
		return fmt.Errorf("its files in the store differ from %s: %s has the SHA-256 %s, but %s is locked. Install them again: toolhost plugin install --reinstall", p.path, path, is, sum)
	}
	s, err := artifact.UserStore()
	if err != nil {
		return err
	}
	return s.Hold(path)
}
