package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// uninstrumented lists the packages whose tests start programs. The race detector would see nothing of these programs,
// and it would make the tests slower.
var uninstrumented = []string{"toolhost.dev/host/cmd/toolhost", "toolhost.dev/host/cmd/test/"}

// startPrograms lists the packages whose tests start programs and take longest, the slowest first.
var startPrograms = []string{"toolhost.dev/host/cmd/test/fleet", "toolhost.dev/host/cmd/test/sandbox", "toolhost.dev/host/cmd/test/durable", "toolhost.dev/host/cmd/test/mcp"}

// first lists the packages with the race detector whose tests take longest, the slowest first. These tests start before
// all others. Otherwise, the run could wait at the end for one of them while the other cores are idle.
var first = []string{
	"toolhost.dev/plugins/bash/bash", "toolhost.dev/host", "toolhost.dev/plugins/grep/finder", "toolhost.dev/sdk/tooltest/conformance", "toolhost.dev/sdk/toolrpc", "toolhost.dev/branch", "toolhost.dev/plugins/read/files", "toolhost.dev/plugins/edit/editor",
}

// test runs the tests. The Makefile runs the checks before: a check beside the tests would make both slower than one
// after the other, and could exceed limits that hold on an idle machine.
func (t *task) test() error { return t.unit() }

// unit runs all tests, most of them with the race detector. The tests use the programs in bench/peers, and the programs
// of the build.
func (t *task) unit() error {
	if err := t.peersDebian(); err != nil {
		fmt.Fprintln(t.out, err)
		err = t.leftOut("plugins in Python and the comparisons with fd and ctags, because these could not be had: that takes apt-get, dpkg and /usr/bin/python3 of Debian 12.", "run it on Debian 12")
		if err != nil {
			return err
		}
	}
	env, err := t.testEnv()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.Join(t.modules(nil, env),
			t.leftOut("the comparison with ripgrep and the MCP clients and conformance suite, because there is no npm to install them with.", "install npm"))
	}
	if err := t.peers(); err != nil {
		return err
	}
	peers, err := filepath.EvalSymlinks(t.Path("bench/peers/node_modules"))
	if err != nil {
		return err
	}
	return t.modules([]string{"-tags=oracle"}, append(env, "TOOLHOST_PEERS="+filepath.Dir(peers), "TOOLHOST_RG="+ripgrep(peers)))
}

// testEnv builds the programs that tests start. It returns the environment of tests. Go keeps the result of a test as
// long as the variables and the files are the same that the test read. Therefore, the names of programs contain hashes.
func (t *task) testEnv() ([]string, error) {
	programs, err := t.buildTestPrograms()
	if err != nil {
		return nil, err
	}
	env := []string{"TOOLHOST_TEST_PROGRAMS=" + programs}
	if sources, err := t.sources(); err == nil {
		env = append(env, "TOOLHOST_SOURCES="+sources)
	}
	if debian, err := filepath.EvalSymlinks(t.Path(debianDir)); err == nil {
		env = append(env, "TOOLHOST_DEBIAN="+debian)
	}
	return env, nil
}

// modules runs the tests of all modules: those of the tools, those that only compute, those that start programs, and
// then all others with the race detector. Each suite is a single go command, which compiles each package once.
func (t *task) modules(flags, env []string) error {
	if err := t.tools(); err != nil {
		return err
	}
	oracles, err := t.oraclePackages()
	if err != nil {
		return err
	}
	plain, race, err := t.testPackages()
	if err != nil {
		return err
	}
	// By default, each program with the race detector waits a second before it exits.
	instrumented := append(slices.Clone(env), "GORACE=atexit_sleep_ms=10", "CGO_ENABLED=1")
	// Tests with the detector often wait, so one more package than processors runs at once.
	err = t.suites(
		suite{name: "tools", dir: "tools", env: slices.Concat(standalone, env), packages: []string{"./..."}},
		suite{name: "oracles", dir: ".", env: env, flags: slices.Concat(flags, []string{"-run", "^TestOracle"}), packages: oracles},
		suite{name: "programs", dir: ".", env: env, flags: slices.Concat(flags, []string{"-skip", "^TestOracle"}, parallel), packages: plain},
		suite{name: "race", dir: ".", env: instrumented, flags: slices.Concat(flags, []string{"-race", "-p", strconv.Itoa(runtime.GOMAXPROCS(0) + 1)}), packages: race},
	)
	return errors.Join(err, t.passed("test-docs", docsSources, func(*task) error { return t.suites(docsSuites(env)...) }))
}

// parallel makes more tests than processors run at once, because these tests wait for the programs that they start.
var parallel = []string{"-parallel", strconv.Itoa(2 * runtime.GOMAXPROCS(0))}

// docsSources lists the documents and kits, and the tests of what they promise.
var docsSources = []string{"README.md", "docs", "examples", "sdk", "host/scaffold", "host/develop", "tools/dist", "tools/task/bundled_test.go", "host/cmd/test/docs", "host/cmd/test/hosttest"}

// testPackages returns the packages with tests: those that run without the race detector, and those that run with it.
// The detector can find something only where goroutines meet.
func (t *task) testPackages() (plain, race []string, err error) {
	c := t.command(".", nil, "go", append([]string{"list", "-tags=oracle", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"}, t.Packages()...)...)
	c.Stdout = nil
	out, err := c.Output()
	if err != nil {
		return nil, nil, err
	}
	dirs := make(map[string]string)
	var found []string
	for line := range strings.Lines(string(out)) {
		if p, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[p] = dir
			found = append(found, p)
		}
	}
	for _, p := range slices.Concat(startPrograms, first, found) {
		dir, ok := dirs[p]
		if !ok {
			continue
		}
		delete(dirs, p) // each package once
		starts := slices.ContainsFunc(uninstrumented, func(prefix string) bool { return strings.HasPrefix(p, prefix) })
		meet, err := goroutinesMeet(dir)
		if err != nil {
			return nil, nil, err
		}
		if starts || !meet {
			plain = append(plain, p)
		} else {
			race = append(race, p)
		}
	}
	return plain, race, nil
}

// goroutinesMeet reports whether the code of a package, or its tests, starts goroutines or shares data between them.
func goroutinesMeet(dir string) (bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		for n := range ast.Preorder(f) {
			switch n := n.(type) {
			case *ast.GoStmt:
				return true, nil
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				shared := x != nil && (x.Name == "atomic" || x.Name == "sync" && n.Sel.Name != "OnceValue" && n.Sel.Name != "OnceValues")
				if shared || n.Sel.Name == "Go" {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// oraclePackages returns the packages with oracle tests. These tests run without the race detector: they only compute,
// so the detector would find nothing, but take most of the time.
func (t *task) oraclePackages() ([]string, error) {
	files, err := t.testFiles()
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, f := range files {
		if f.norace {
			packages = append(packages, "./"+filepath.ToSlash(filepath.Dir(f.path)))
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages), nil
}

// testDocs runs the tests of the guides, of the kits for authors of plugins, and of what authors ship. They build many
// programs, so "make test" runs them only if one of these has changed since they passed.
func (t *task) testDocs() error {
	if err := errors.Join(t.peersDebian(), t.peers(), t.tools()); err != nil {
		return err
	}
	env, err := t.testEnv()
	if err != nil {
		return err
	}
	return t.suites(docsSuites(env)...)
}

// docsSuites returns the tests of documents, kits and what authors ship.
func docsSuites(env []string) []suite {
	tools := []string{"-tags=docs", "-run", "^(TestProxy|TestNewBundledPlugin)$"}
	programs := []string{"-tags=oracle,docs", "-run", "^(TestDocumentScripts|TestGuide|TestNewPluginsShip)"}
	programs = append(programs, parallel...)
	return []suite{
		{name: "shipping", dir: "tools", env: slices.Concat(standalone, env), flags: tools, packages: []string{"./dist", "./task"}},
		{name: "docs", dir: ".", env: env, flags: programs, packages: []string{"./host/cmd/test/docs"}},
	}
}

func (t *task) conformance() error {
	if err := t.peers(); err != nil {
		return err
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "10m", "-tags", "oracle", "-run", "TestConformance|TestTypeScriptClients|TestInspector", "-v", "./cmd/test/mcp").Run()
}

func (t *task) soak() error {
	env := []string{"TOOLHOST_SOAK=" + t.setting("SOAKTIME", "60s")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestSoak$", "-v", ".").Run()
}

func (t *task) soakOrder() error {
	env := []string{"TOOLHOST_ORDER=" + t.setting("HISTORIES", "10000")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestOrder", "-v", "./cmd/test/calls").Run()
}

// soakUpgrade upgrades a plugin many times while 64 callers use it.
func (t *task) soakUpgrade() error {
	env := []string{"TOOLHOST_UPGRADES=" + t.setting("UPGRADES", "100")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestUpgradeUnderLoad$", "-v", "./cmd/test/durable").Run()
}

// soakMounts mounts public MCP servers. It calls the tools of each server directly and through the host.
// It keeps the installed packages in bench/mounts/packages for the next run.
func (t *task) soakMounts() error {
	if err := t.peers(); err != nil {
		return err
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers"), "TOOLHOST_MOUNTS=" + t.setting("MOUNTS", t.Path("bench/mounts/packages"))}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-tags", "oracle", "-parallel", "2", "-run", "^TestMountsOfPublicServers$", "-v", "./cmd/test/mcp").Run()
}

// soakAgents checks that agents list the servers that "toolhost setup" has written to the agents' configurations. It
// keeps the installed agents in bench/agents for the next run. It does not run the installation scripts of the agents'
// packages.
func (t *task) soakAgents() error {
	const dir = "bench/agents"
	if err := errors.Join(t.peers(), t.npmOnce(dir, "--ignore-scripts")); err != nil {
		return err
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers"), "TOOLHOST_AGENTS=" + t.Path(dir+"/node_modules")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "20m", "-tags", "oracle", "-run", "^TestSetupOfRealAgents$", "-v", "./cmd/test/cli").Run()
}

// soakLong runs the long forms of tests that "make test" runs in a short form.
func (t *task) soakLong() error {
	env, err := t.testEnv()
	if err != nil {
		return err
	}
	const tests = "^(TestRollouts|TestKilledWhileWriting|TestStateCommandsAreKilled|TestTapeOfManyCalls|TestHostileClone|TestRandomLines|TestMCPRandomLines)$"
	return t.command("host", append(env, "TOOLHOST_LONG=1"), "go", "test", "-count=1", "-timeout", "60m", "-run", tests, "-v", "./mcp", "./cmd/test/calls", "./cmd/test/durable", "./cmd/test/mcp", "./cmd/test/sandbox").Run()
}

// soakFleet breaks a fleet of five nodes at random and checks the histories of its clients. Then it disables one guard
// after another, and checks that errors are found while the guard is disabled.
func (t *task) soakFleet() error {
	env := []string{"TOOLHOST_FLEET_TIME=" + t.setting("FLEETTIME", "10m"), "TOOLHOST_FLEET_CONTROLS=1", "TOOLHOST_FLEET_COORDINATORS=5"}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "120m", "-run", "^TestFleet(History|Controls|Coordinators)$", "-v", "./cmd/test/fleet").Run()
}

// soakBranches changes the same branches with many processes, and checks that no acknowledged change is lost.
func (t *task) soakBranches() error {
	env := []string{"TOOLHOST_BRANCHES_TIME=" + t.setting("BRANCHTIME", "10m"), "TOOLHOST_BRANCHES_SEED=" + t.setting("BRANCHSEED", "")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "120m", "-run", "^TestNoAcknowledgedChangeIsLost$", "-v", "./cmd/test/branches").Run()
}

// soakReflinks tests branches on file systems on which files can share data. It must run as root, because it creates
// disks with these file systems.
func (t *task) soakReflinks() error {
	return t.command("branch", []string{"TOOLHOST_REFLINKS=1"}, "go", "test", "-count=1", "-timeout", "20m", "-run", "^TestReflinks$", "-v", ".").Run()
}

// fuzz runs each fuzz target for a limited time.
func (t *task) fuzz() error {
	files, err := t.testFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		for _, name := range f.funcs {
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			dir := filepath.Dir(f.path)
			err := t.command(dir, nil, "go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", t.setting("FUZZTIME", "30s"), "-fuzzminimizetime", "20x", ".").Run()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// setting returns the value of an environment variable. If the variable is empty, it returns fallback.
func (t *task) setting(name, fallback string) string {
	if v := t.getenv(name); v != "" {
		return v
	}
	return fallback
}

func (t *task) grammars() error {
	const dir = "plugins/grep/grammar/build"
	if err := t.npmOnce(dir); err != nil {
		return err
	}
	return t.run(nil, "node", append([]string{dir + "/build.mjs"}, strings.Fields(t.getenv("LANGUAGES"))...)...)
}
