package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// This list contains the modules whose tests must not run at the same time as other tests, because they depend on time
// limits.
var alone = []string{"host", "plugins/bash"}

// This list contains the modules whose tests take longest. Their tests start before the tests of the remaining modules.
var slow = []string{"plugins/grep", "sdk"}

// slowChecks lists the checks that take minutes. They run beside the tests, which often wait for processes and clocks.
var slowChecks = []string{"check-systems", "check-lint", "check-dead"}

// test runs the tests and the slow checks. The checks have the lowest priority, so that they only use the time that the
// tests leave.
func (t *task) test() error {
	checks := make(chan error, 1)
	go func() { checks <- t.beside(slowChecks) }()
	return errors.Join(t.unit(), <-checks)
}

// beside runs targets one after the other with the lowest priority. When a target has ended, beside prints its output.
func (t *task) beside(targets []string) error {
	var errs []error
	for _, target := range targets {
		var log bytes.Buffer
		c := t.command(".", nil, "nice", "-n", "19", t.Path("bin/tools/task"), target)
		c.Stdout, c.Stderr = &log, &log
		err := c.Run()
		t.mu.Lock()
		fmt.Fprintf(t.out, "%s\n%s", target, log.String())
		t.mu.Unlock()
		if err != nil {
			err = fmt.Errorf("%s: %w", target, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unit runs all tests with the race detector. The tests use the programs in bench/peers.
func (t *task) unit() error {
	if err := t.peersDebian(); err != nil {
		err = t.leftOut("plugins in Python and the comparisons with fd and ctags, because these could not be had: that takes apt-get, dpkg and /usr/bin/python3 of Debian 12.", "run it on Debian 12")
		if err != nil {
			return err
		}
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers")}
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.Join(t.modules(nil, env),
			t.leftOut("the comparison with ripgrep and the MCP clients and conformance suite, because there is no npm to install them with.", "install npm"))
	}
	if err := t.peers(); err != nil {
		return err
	}
	return t.modules([]string{"-tags=oracle"}, append(env, "TOOLHOST_RG="+t.ripgrep()))
}

// modules runs the tests of all modules. It begins with the oracle tests. Next come the modules in the list "alone".
// Then it runs the tests of the other modules, two modules at a time.
func (t *task) modules(flags, env []string) error {
	oracles, err := t.oracleTest(flags, env)
	if err != nil {
		return err
	}
	errs := []error{oracles.Run(), t.suite("tools", slices.Concat(standalone, env))}
	// By default, each program with the race detector waits a second before it exits.
	env = append(slices.Clone(env), "GORACE=atexit_sleep_ms=10")
	test := func(dir string) error { return t.suite(dir, env, append(slices.Clone(flags), "-race")...) }
	others := slices.Clone(slow)
	for _, m := range t.Modules {
		if !slices.Contains(alone, m) && !slices.Contains(slow, m) {
			others = append(others, m)
		}
	}
	errs = append(errs, atATime(1, alone, test)...)
	errs = append(errs, atATime(2, others, test)...)
	return errors.Join(errs...)
}

// suite runs the tests of a module. It prints their output at the end, because the outputs of concurrent suites
// would otherwise mix.
func (t *task) suite(dir string, env []string, flags ...string) error {
	var log bytes.Buffer
	c := t.command(dir, env, "go", slices.Concat([]string{"test", "-vet=off", "-count=1", "-timeout", "25m"}, flags, []string{"./..."})...)
	c.Stdout, c.Stderr = &log, &log
	err := c.Run()
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "test %s\n%s", dir, log.String())
	return err
}

// atATime calls the function f for each name. At most n calls run at the same time.
func atATime(n int, names []string, f func(string) error) []error {
	errs := make([]error, len(names))
	free := make(chan struct{}, n)
	var all sync.WaitGroup
	for i, name := range names {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = f(name)
		})
	}
	all.Wait()
	return errs
}

// oracleTest returns the command for the oracle tests, which only compute. The command does not use the race
// detector: the detector would find nothing but take most of the time.
func (t *task) oracleTest(flags, env []string) (*exec.Cmd, error) {
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
	args := slices.Concat([]string{"test", "-vet=off", "-count=1", "-timeout", "25m"}, flags, []string{"-run", "^TestOracle"}, slices.Compact(packages))
	return t.command(".", env, "go", args...), nil
}

func (t *task) conformance() error {
	if err := t.peers(); err != nil {
		return err
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "10m", "-tags", "oracle", "-run", "TestConformance|TestTypeScriptClients|TestInspector", "-v", "./cmd/toolhost").Run()
}

func (t *task) soak() error {
	env := []string{"TOOLHOST_SOAK=" + t.setting("SOAKTIME", "60s")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestSoak$", "-v", ".").Run()
}

func (t *task) soakOrder() error {
	env := []string{"TOOLHOST_ORDER=" + t.setting("HISTORIES", "10000")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestOrder", "-v", "./cmd/toolhost").Run()
}

// soakUpgrade upgrades a plugin many times while 64 callers use it.
func (t *task) soakUpgrade() error {
	env := []string{"TOOLHOST_UPGRADES=" + t.setting("UPGRADES", "100")}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestUpgradeUnderLoad$", "-v", "./cmd/toolhost").Run()
}

// soakMounts compares the tools of mounted public MCP servers with the servers' own lists. It keeps the installed packages in
// bench/mounts/packages for the next run.
func (t *task) soakMounts() error {
	if err := t.peers(); err != nil {
		return err
	}
	env := []string{"TOOLHOST_PEERS=" + t.Path("bench/peers"), "TOOLHOST_MOUNTS=" + t.setting("MOUNTS", t.Path("bench/mounts/packages"))}
	return t.command("host", env, "go", "test", "-count=1", "-timeout", "60m", "-tags", "oracle", "-parallel", "2", "-run", "^TestMountsOfPublicServers$", "-v", "./cmd/toolhost").Run()
}

// soakClones runs each command of the program in each hostile repository.
func (t *task) soakClones() error {
	return t.command("host", []string{"TOOLHOST_CLONES=all"}, "go", "test", "-count=1", "-timeout", "60m", "-run", "^TestHostileClone", "-v", "./cmd/toolhost").Run()
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
	if err := t.npm(dir); err != nil {
		return err
	}
	return t.run(nil, "node", append([]string{dir + "/build.mjs"}, strings.Fields(t.getenv("LANGUAGES"))...)...)
}
