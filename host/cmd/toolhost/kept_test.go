package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// kept lists the files of a state directory that store what a host has learned about the plugins and the kernel. These
// files are the same for all tests.
var kept = []string{"state.db", "sandbox.probed"}

// learn starts each bundled plugin and the test plugin once. The host stores what it learns in dir/kept. The function
// keptState copies these files to new state directories.
func learn(dir string) error {
	work := filepath.Join(dir, "learned")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	file := filepath.Join(work, "config.hcl")
	config := fmt.Sprintf("plugin \"test\" {\n  path  = %q\n  field = \"test\"\n}\n", filepath.Join(dir, "testplugin"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	c := exec.Command(filepath.Join(dir, "toolhost"), "--config", file, "--workspace", work, "--state", filepath.Join(dir, "kept"), "tools")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("toolhost tools: %w\n%s", err, out)
	}
	return nil
}

var keptMu sync.Mutex // locked while files are copied to a state directory

// keptState returns the state directory dir. If dir does not exist, keptState creates it with the files in [kept].
// Without these files, the first command of each test would start all plugins to learn their tools. This would be five
// times as much work as the command itself.
func keptState(t testing.TB, dir string) string {
	t.Helper()
	if err := fillState(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fillState(dir string) error {
	keptMu.Lock()
	defer keptMu.Unlock()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	for _, name := range kept {
		b, readErr := os.ReadFile(filepath.Join(bin, "kept", name))
		if errors.Is(readErr, fs.ErrNotExist) { // a host that cannot use namespaces does not write the file sandbox.probed
			continue
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return err
}
