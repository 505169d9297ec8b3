package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"toolhost.dev/tools/dist"
)

// consoleDir is the directory with the npm packages of the web console and of its tests.
const consoleDir = "host/console/npm"

// peers installs the programs with which tests and benchmarks compare toolhost.
func (t *task) peers() error {
	return errors.Join(t.nodeModules(), t.npmOnce("bench/peers"), t.npmOnce(consoleDir))
}

// nodeModules installs the programs that build the Node SDK.
func (t *task) nodeModules() error { return t.npmOnce(filepath.Dir(dist.NodeModules)) }

// npmOnce installs the npm packages that a directory's package-lock.json pins, unless another clone has installed them.
// The packages are in the user's cache, and dir/node_modules is a link to them.
func (t *task) npmOnce(dir string, options ...string) error {
	files := []string{dir + "/package.json", dir + "/package-lock.json"}
	entry, err := t.cacheEntry("npm-"+strings.ReplaceAll(dir, "/", "-"), files...)
	if err != nil {
		return err
	}
	err = t.once(entry, func(at string) error {
		for _, f := range files {
			b, err := os.ReadFile(t.Path(f))
			if err == nil {
				err = os.WriteFile(filepath.Join(at, filepath.Base(f)), b, 0o644) //nolint:gosec // the build's output
			}
			if err != nil {
				return err
			}
		}
		c := t.command(".", nil, "npm", slices.Concat([]string{"ci", "--prefix", at, "--no-audit", "--no-fund", "--loglevel=error"}, options)...)
		c.Stdout = nil
		return c.Run()
	})
	if err != nil {
		return fmt.Errorf("the npm packages of %s: %w", dir, err)
	}
	return t.link(dir+"/node_modules", filepath.Join(entry, "node_modules"))
}

// consoleAssets copies the scripts of the web console from the npm packages that the lock file of the console pins. The
// copies are committed, so that a build needs no npm.
func (t *task) consoleAssets() error {
	const dir = consoleDir
	if err := t.npmOnce(dir); err != nil {
		return err
	}
	for from, to := range map[string]string{
		"htmx.org/dist/htmx.min.js": "htmx.min.js", "htmx-ext-sse/sse.js": "sse.js", "uplot/dist/uPlot.iife.min.js": "uPlot.iife.min.js", "uplot/dist/uPlot.min.css": "uPlot.min.css",
	} {
		b, err := os.ReadFile(t.Path(dir + "/node_modules/" + from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(t.Path("host/console/assets/"+to), b, 0o644); err != nil { //nolint:gosec // a source file
			return err
		}
	}
	return nil
}

// ripgrep returns the path of the program ripgrep that npm has installed into the directory modules.
func ripgrep(modules string) string {
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return filepath.Join(modules, "@vscode", "ripgrep-"+runtime.GOOS+"-"+arch, "bin", "rg")
}

// debianDir is the directory with the unpacked Debian packages.
const debianDir = "bench/peers/debian"

// debianEntry returns the directory in the user's cache for the Debian packages.
func (t *task) debianEntry() (string, error) { return t.cacheEntry("debian", debianDir+".txt") }

// peersDebian downloads and unpacks Debian packages with programs for comparison and with gRPC for Python, unless
// another clone has done so. It does not install the packages on the system. The directory bench/peers/debian is a link
// to the unpacked packages in the user's cache.
func (t *task) peersDebian() error {
	entry, err := t.debianEntry()
	if err != nil {
		return err
	}
	if err := t.once(entry, func(dir string) error { return t.unpackDebian(dir, entry) }); err != nil {
		return err
	}
	return t.link(debianDir, entry)
}

// unpackDebian unpacks the Debian packages into dir. They are moved to the directory final later.
func (t *task) unpackDebian(dir, final string) error {
	list, err := os.ReadFile(t.Path(debianDir + ".txt"))
	if err != nil {
		return err
	}
	if err := t.download(dir, strings.Fields(string(list))); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil { //nolint:gosec // the build's output
		return err
	}
	for link, target := range map[string]string{"python3": "/usr/bin/python3", "fd": "../usr/bin/fdfind", "ctags": "../usr/bin/ctags-universal"} {
		if err := os.Symlink(target, filepath.Join(dir, "bin", link)); err != nil {
			return err
		}
	}
	c := exec.Command(filepath.Join(dir, "bin/python3"), "-c", "import grpc") //nolint:gosec // the program of the system
	c.Env = []string{"PYTHONPATH=" + filepath.Join(dir, pythonPackages), "LD_LIBRARY_PATH=" + strings.Join(libraryDirs(dir), ":")}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("import grpc: %w\n%s", err, out)
	}
	return setLibraryDirs(dir, final)
}

// pythonPackages is the directory of Python packages in the unpacked Debian packages.
const pythonPackages = "usr/lib/python3/dist-packages"

// debianPython returns the environment variables with which Python finds the packages that peersDebian unpacked.
func (t *task) debianPython() ([]string, error) {
	dir, err := t.debianEntry()
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libraryDirs(dir), ":"), "PYTHONPATH=" + filepath.Join(dir, pythonPackages)}, err
}

// download downloads Debian packages into a directory and unpacks them there.
func (t *task) download(dir string, packages []string) error {
	get := func() *exec.Cmd {
		c := t.command(".", nil, "apt-get", append([]string{"download", "-qq", "-o", "APT::Sandbox::User=root"}, packages...)...)
		c.Dir = dir
		return c
	}
	first := get()
	first.Stderr = nil
	if first.Run() != nil { // retry after an update, because the package lists can be outdated
		if err := t.run(nil, "apt-get", "update", "-qq"); err != nil {
			return fmt.Errorf("apt-get update: %w", err)
		}
		if err := get().Run(); err != nil {
			return fmt.Errorf("apt-get download: %w", err)
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := t.run(nil, "dpkg", "-x", a, dir); err != nil {
			return fmt.Errorf("dpkg: %w", err)
		}
		if err := os.Remove(a); err != nil {
			return err
		}
	}
	return nil
}
