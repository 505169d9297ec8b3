// Command task implements the targets of the Makefile.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"toolhost.dev/tools/project"
)

// tasks maps targets to their functions. The Makefile describes the targets.
var tasks = map[string]func(*task) error{
	"build": (*task).build, "demo": (*task).demo, "demo-fleet": (*task).demoFleet, "generate": (*task).generate, "grammars": (*task).grammars, "clean": (*task).clean,
	"install": (*task).install, "uninstall": (*task).uninstall,
	"test": (*task).test, "test-docs": (*task).testDocs, "test-programs": (*task).testPrograms, "unit": (*task).unit, "conformance": (*task).conformance, "soak": (*task).soak, "soak-order": (*task).soakOrder, "soak-mounts": (*task).soakMounts, "soak-agents": (*task).soakAgents, "soak-long": (*task).soakLong, "soak-fleet": (*task).soakFleet, "soak-upgrade": (*task).soakUpgrade, "soak-branches": (*task).soakBranches, "soak-reflinks": (*task).soakReflinks, "fuzz": (*task).fuzz, "bench": (*task).bench, "callpath": (*task).callpath,
	"peers": (*task).peers, "peers-debian": (*task).peersDebian, "console-assets": (*task).consoleAssets,
	"check-format": (*task).checkFormat, "fix-format": (*task).fixFormat,
	"check-tidy": (*task).checkTidy, "fix-tidy": (*task).fixTidy,
	"check-vet": (*task).checkVet, "check-systems": (*task).checkSystems, "check-lint": (*task).checkLint, "fix-lint": (*task).fixLint,
	"check-generated": (*task).checkGenerated, "check-config": (*task).checkConfig, "check-reference": (*task).checkReference,
	"check-size": (*task).checkSize, "check-dead": (*task).checkDead, "check-prose": (*task).checkProse, "check-oracle": (*task).checkOracle, "check-plugins": (*task).checkPlugins,
	"check-requirements": (*task).checkRequirements, "check-documents": (*task).checkDocuments,
	"dist": (*task).dist, "packages": (*task).packages, "check-dist": (*task).checkDist,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		report(os.Stderr, err)
		os.Exit(1)
	}
}

// report prints an error. It omits the error that a program has failed, because the program has already printed the
// reason.
func report(w io.Writer, err error) {
	var several interface{ Unwrap() []error }
	var exit *exec.ExitError
	switch {
	case errors.As(err, &several):
		for _, e := range several.Unwrap() {
			report(w, e)
		}
	case !errors.As(err, &exit):
		fmt.Fprintln(w, err)
	}
}

// run executes one target. It compiles all programs without cgo and with -trimpath, like the programs of a release. So
// the build, the checks and the tests share compiled packages, even between clones of the repository. Only tests with
// the race detector compile separately, because the race detector needs cgo.
func run(args []string) error {
	if len(args) != 1 || tasks[args[0]] == nil {
		return fmt.Errorf("usage: task NAME; use one of %s", strings.Join(slices.Sorted(maps.Keys(tasks)), ", "))
	}
	p, err := project.Open(".")
	if err == nil {
		err = errors.Join(os.Setenv("CGO_ENABLED", "0"), os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath")))
	}
	if err != nil {
		return err
	}
	t := &task{Project: p, out: os.Stdout, getenv: os.Getenv}
	if isCheck(args[0]) {
		// Some checks read all of the code into memory. With the default settings, the garbage collector would take a
		// quarter of their time.
		debug.SetGCPercent(300)
		debug.SetMemoryLimit(3 << 30)
		if err := errors.Join(os.Setenv("GOGC", "300"), os.Setenv("GOMEMLIMIT", "3GiB")); err != nil {
			return err
		}
		return t.passed(args[0], nil, tasks[args[0]])
	}
	return tasks[args[0]](t)
}

// task runs programs in the repository.
type task struct {
	*project.Project

	out    io.Writer
	getenv func(string) string
}

// tool returns the path of a development tool, whose version is pinned.
func (t *task) tool(name string) string { return t.Path(pinnedDir + "/" + name) }

// command returns a command that runs in dir with additional environment variables. The path dir is relative to the
// root.
func (t *task) command(dir string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...) //nolint:gosec // the programs of the build
	c.Dir, c.Stdin, c.Stdout, c.Stderr = t.Path(dir), os.Stdin, t.out, os.Stderr
	c.Env = append(os.Environ(), env...)
	return c
}

// in runs a program in the directory dir.
func in(dir, name string, args ...string) error {
	c := exec.Command(name, args...) //nolint:gosec // the programs of the build
	c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
	return c.Run()
}

// run runs a program in the root directory.
func (t *task) run(env []string, name string, args ...string) error {
	return t.command(".", env, name, args...).Run()
}

// each runs a program once in the directory of each of the modules.
func (t *task) each(modules, env []string, name string, args ...string) error {
	var errs []error
	for _, m := range modules {
		errs = append(errs, t.command(m, env, name, args...).Run())
	}
	return errors.Join(errs...)
}

// standalone is the environment in which the go command runs for modules outside the workspace.
var standalone = []string{"GOWORK=off"}

// leftOut prints that a check is skipped because it cannot run on this machine. In CI, it also returns an error that
// contains the remedy.
func (t *task) leftOut(what, remedy string) error {
	fmt.Fprintln(t.out, "LEFT OUT: "+what)
	if t.getenv("CI") == "true" {
		return errors.New("CI must leave nothing out: " + remedy)
	}
	return nil
}

// ownEntry reports whether programs can have special entry points on a platform.
func ownEntry(goos, goarch string) bool {
	return goos == "linux" && (goarch == "amd64" || goarch == "arm64")
}

// onPlatform returns the linker flag for an entry point if the platform supports it.
func onPlatform(entry string) string {
	if entry == "" || !ownEntry(runtime.GOOS, runtime.GOARCH) {
		return ""
	}
	return " -E " + entry
}
