// Package npm installs MCP servers from npm. It runs the operator's own npm, with its registries and logins. No install
// script runs, and the whole tree of dependencies is locked. Most callers want [Parse] and [Install].
package npm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/artifact"
)

// Lock contains the parts of npm's package lock that are checked.
type Lock struct {
	Packages map[string]struct {
		Version          string `json:"version"`
		Resolved         string `json:"resolved"`
		Integrity        string `json:"integrity"`
		Link             bool   `json:"link"`
		HasInstallScript bool   `json:"hasInstallScript"`
	} `json:"packages"`
}

// maxLock is the maximum size of a package lock, in bytes.
const maxLock = 8 << 20

// ReadLock reads a package lock. It returns an error if a package has no hash, runs a script, or does not come from a
// registry.
func ReadLock(text []byte) (*Lock, error) {
	var out Lock
	if len(text) > maxLock {
		return nil, fmt.Errorf("the package lock is larger than %d MiB", maxLock>>20)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("the package lock cannot be read: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Packages)) {
		p := out.Packages[name]
		switch {
		case name == "":
		case !strings.HasPrefix(name, "node_modules/") || p.Link:
			return nil, fmt.Errorf("the package %s is a link to other files", name)
		case p.Resolved != "": // npm omits the field "resolved" for packages of registries
			return nil, fmt.Errorf("the package %s comes from %.200s, which is not a registry; such packages are not installed", name, p.Resolved)
		case p.Integrity == "":
			return nil, fmt.Errorf("the package %s has no hash, so it cannot be locked", name)
		case p.HasInstallScript:
			return nil, fmt.Errorf("the package %s runs a script when it is installed; such packages are not installed", name)
		}
	}
	return &out, nil
}

// Installed is an installed package.
type Installed struct {
	// Version is the version of the package. Program is the path of its program below the directory.
	Version, Program string
	// Lock is the package lock.
	Lock []byte
}

// Install installs a package into an empty directory. lock is the package lock of an earlier installation, or nil to
// select the newest versions.
func Install(ctx context.Context, p artifact.Package, dir string, lock []byte) (*Installed, error) {
	manifest, err := json.Marshal(map[string]any{
		"name": "toolhost-server", "version": "0.0.0", "private": true,
		"dependencies": map[string]string{p.Name: p.Range},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o600)
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "package-lock.json")
	if lock == nil {
		if err := run(ctx, dir, "install", "--package-lock-only", "--omit-lockfile-registry-resolved"); err != nil {
			return nil, err
		}
		if lock, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	} else if err := os.WriteFile(path, lock, 0o600); err != nil {
		return nil, err
	}
	read, err := ReadLock(lock)
	if err != nil {
		return nil, err
	}
	if err := run(ctx, dir, "ci", "--omit=dev", "--bin-links=false"); err != nil {
		return nil, err
	}
	program, err := programOf(dir, p.Name)
	if err != nil {
		return nil, err
	}
	return &Installed{Version: read.Packages["node_modules/"+p.Name].Version, Program: program, Lock: lock}, nil
}

// run runs npm without scripts.
func run(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "npm", append(args, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")...) //nolint:gosec // the arguments are fixed
	c.Dir = dir
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("npm is not installed; install Node.js with npm")
	case err != nil:
		const shown = 2000
		text := strings.TrimSpace(out.String())
		return fmt.Errorf("npm %s failed (%w): %s", args[0], err, text[:min(len(text), shown)])
	}
	return nil
}

// programOf returns the path of a package's program below the directory.
func programOf(dir, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "node_modules", filepath.FromSlash(name), "package.json"))
	if err != nil {
		return "", err
	}
	var manifest struct {
		Bin json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(b, &manifest); err != nil {
		return "", err
	}
	var one string
	if json.Unmarshal(manifest.Bin, &one) != nil {
		var all map[string]string
		_ = json.Unmarshal(manifest.Bin, &all) // ignore the error: the program is then missing
		one = all[path.Base(name)]
		for _, first := range slices.Sorted(maps.Keys(all)) {
			if one == "" {
				one = all[first]
			}
		}
	}
	program := path.Join("node_modules", name, one)
	if one == "" || !filepath.IsLocal(one) {
		return "", fmt.Errorf("the package %s has no program, so it is not an MCP server. Name the package of a server", name)
	}
	return program, nil
}
