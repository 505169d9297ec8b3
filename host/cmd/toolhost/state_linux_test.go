package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStateCommandsAreKilled kills each of the commands backup, restore and gc at many moments. A backup that exists
// must be complete. After a killed restore, the directory must have either the old or the new content, and the old
// content must still exist. After a killed gc, the directory must still work. A later command that is not killed must
// remove the remains of the killed commands.
func TestStateCommandsAreKilled(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	state, archives := dir+".state", t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := toolhost(t, dir, args...).Output()
		must(t, err)
		return string(out)
	}
	run("run", "export MARK=old")
	big := make([]byte, 24<<20) // random, so that compression takes a while
	_, err := rand.Read(big)
	must(t, err)
	output := filepath.Join(state, "plugins", "bash", "output")
	must(t, os.MkdirAll(output, 0o700))
	must(t, os.WriteFile(filepath.Join(output, "big.txt"), big, 0o600))
	whole := filepath.Join(archives, "whole.tar.gz")
	began := time.Now()
	run("state", "backup", whole)
	took := time.Since(began)
	run("run", "export MARK=new")

	killed := 0
	kill := func(i int, span time.Duration, args ...string) {
		c := exec.Command(filepath.Join(bin, "toolhost"), append([]string{"--state", state, "--config", filepath.Join(dir, "toolhost.hcl"), "--require-trust=false"}, args...)...)
		c.Dir = dir
		must(t, c.Start())
		time.Sleep(span * time.Duration(i+1) / 14)
		if c.Process.Kill() == nil && c.Wait() != nil {
			killed++
		}
	}
	for i := range 10 {
		path := filepath.Join(archives, fmt.Sprintf("%d.tar.gz", i))
		kill(i, took, "state", "backup", path)
		if _, err := os.Stat(path); err == nil {
			run("--state", t.TempDir(), "state", "restore", path)
		}
	}
	run("state", "backup", filepath.Join(archives, "last.tar.gz"))
	partials := func(dir string) (n int) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".toolhost-partial-") {
				n++
			}
		}
		return n
	}
	if n := partials(archives); n > 0 {
		t.Errorf("%d parts of killed backups are left", n)
	}

	for i := range 10 {
		kill(i, took, "state", "restore", whole)
		mark := strings.TrimSpace(run("run", "echo $MARK"))
		before, err := filepath.Glob(state + ".before-*")
		must(t, err)
		switch {
		case mark == "new":
		case mark == "old" && len(before) > 0:
			run("run", "export MARK=new")
		default:
			t.Fatalf("after restore %d: MARK=%q, earlier content %q", i, mark, before)
		}
	}
	run("state", "restore", whole)
	if mark := run("run", "echo $MARK"); mark != "old\n" {
		t.Errorf("after the restore: MARK=%q", mark)
	}
	if n := partials(filepath.Dir(state)); n > 0 {
		t.Errorf("%d parts of killed restores are left", n)
	}

	for i := range 10 {
		kill(i, 60*time.Millisecond, "state", "gc")
		if mark := run("run", "echo $MARK"); mark != "old\n" {
			t.Fatalf("after gc %d: MARK=%q", i, mark)
		}
	}
	if killed < 3 { // a low limit: on a busy machine, many commands end before they are killed
		t.Errorf("only %d commands were killed", killed)
	}
}
