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

// consoleDir is the directory with the npm packages of the web console and of its tests.
const consoleDir = "host/console/npm"

// peers installs the programs with which tests and benchmarks compare toolhost.
func (t *task) peers() error {
	return errors.Join(t.nodeModules(), t.npmOnce("bench/peers"), t.npmOnce(consoleDir))
}

// nodeModules installs the programs that build the Node SDK.
func (t *task) nodeModules() error { return t.npmOnce(filepath.Dir(dist.NodeModules)) }

// npmOnce installs the packages of a directory unless they are installed.
func (t *task) npmOnce(dir string) error {
	stamp := dir + "/node_modules/.installed"
	if t.installed(stamp, dir+"/package.json", dir+"/package-lock.json") {
		return nil
	}
	if err := t.npm(dir); err != nil {
		return err
	}
	return t.stamp(stamp)
}

// npm installs the packages that a directory's package-lock.json pins.
func (t *task) npm(dir string) error {
	c := t.command(".", nil, "npm", "ci", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel=error")
	c.Stdout = nil
	return c.Run()
}

// consoleAssets copies the scripts of the web console from the npm packages that its lock file pins. The copies are
// committed, so that a build needs no npm.
func (t *task) consoleAssets() error {
	const dir = consoleDir
	if err := t.npm(dir); err != nil {
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

// ripgrep returns the path of the ripgrep that npm installed.
func (t *task) ripgrep() string {
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return t.Path("bench/peers/node_modules/@vscode/ripgrep-" + runtime.GOOS + "-" + arch + "/bin/rg")
}

// peersDebian downloads and unpacks Debian packages that contain programs and Python's gRPC. It does not install the
// packages on the system.
func (t *task) peersDebian() error {
	const dir, stamp = "bench/peers/debian", "bench/peers/debian/.installed"
	if t.installed(stamp, "bench/peers/debian.txt") {
		return nil
	}
	list, err := os.ReadFile(t.Path("bench/peers/debian.txt"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(t.Path(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(t.Path(dir+"/bin"), 0o755); err != nil { //nolint:gosec // the build's output
		return err
	}
	if err := t.download(dir, strings.Fields(string(list))); err != nil {
		return err
	}
	for link, target := range map[string]string{"python3": "/usr/bin/python3", "fd": "../usr/bin/fdfind", "ctags": "../usr/bin/ctags-universal"} {
		if err := os.Symlink(target, t.Path(dir+"/bin/"+link)); err != nil {
			return err
		}
	}
	env, err := t.debianPython()
	if err != nil {
		return err
	}
	if err := t.run(env, t.Path(dir+"/bin/python3"), "-c", "import grpc"); err != nil {
		return err
	}
	return t.stamp(stamp)
}

// debianPython returns the environment variables with which Python finds the packages that peersDebian unpacked.
func (t *task) debianPython() ([]string, error) {
	const dir = "bench/peers/debian"
	libs, err := filepath.Glob(t.Path(dir + "/usr/lib/*-linux-gnu"))
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":"), "PYTHONPATH=" + t.Path(dir+"/usr/lib/python3/dist-packages")}, err
}

// download downloads Debian packages into a directory and unpacks them there.
func (t *task) download(dir string, packages []string) error {
	get := func() *exec.Cmd {
		return t.command(dir, nil, "apt-get", append([]string{"download", "-qq", "-o", "APT::Sandbox::User=root"}, packages...)...)
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
	archives, err := filepath.Glob(t.Path(dir + "/*.deb"))
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := t.command(dir, nil, "dpkg", "-x", a, ".").Run(); err != nil {
			return fmt.Errorf("dpkg: %w", err)
		}
		if err := os.Remove(a); err != nil {
			return err
		}
	}
	return nil
}
