package calls

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestStateCommandsAreKilled kills each of the commands backup, restore and gc at many moments. A backup that exists
// must be complete. After a killed restore, the directory must have either the old or the new content, and the old
// content must still exist. After a killed gc, the directory must still work. A later command that is not killed must
// remove the remains of the killed commands.
func TestStateCommandsAreKilled(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	state, archives := dir+".state", t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := hosttest.Toolhost(t, dir, args...).Output()
		hosttest.Must(t, err)
		return string(out)
	}
	run("run", "export MARK=old")
	big := make([]byte, 24<<20) // random, so that compression takes a while
	_, err := rand.Read(big)
	hosttest.Must(t, err)
	output := filepath.Join(state, "plugins", "bash", "output")
	hosttest.Must(t, os.MkdirAll(output, 0o700))
	hosttest.Must(t, os.WriteFile(filepath.Join(output, "big.txt"), big, 0o600))
	whole := filepath.Join(archives, "whole.tar.gz")
	began := time.Now()
	run("state", "backup", whole)
	took := time.Since(began)
	run("run", "export MARK=new")

	killed, rounds := 0, 4
	if hosttest.Long() {
		rounds = 32
	}
	kill := func(i int, span time.Duration, args ...string) {
		c := hosttest.Command(append([]string{"--state", state, "--config", filepath.Join(dir, "toolhost.hcl"), "--require-trust=false"}, args...)...)
		c.Dir = dir
		hosttest.Must(t, c.Start())
		time.Sleep(span * time.Duration(i+1) / time.Duration(rounds+4))
		if c.Process.Kill() == nil && c.Wait() != nil {
			killed++
		}
	}
	for i := range rounds {
		path := filepath.Join(archives, fmt.Sprintf("%d.tar.gz", i))
		kill(i, took, "state", "backup", path)
		if _, err := os.Stat(path); err == nil {
			run("--state", t.TempDir(), "state", "restore", path)
		}
	}
	run("state", "backup", filepath.Join(archives, "last.tar.gz"))
	partials := func(dir string) (n int) {
		entries, err := os.ReadDir(dir)
		hosttest.Must(t, err)
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

	for i := range rounds {
		kill(i, took, "state", "restore", whole)
		mark := strings.TrimSpace(run("run", "echo $MARK"))
		before, err := filepath.Glob(state + ".before-*")
		hosttest.Must(t, err)
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

	for i := range rounds {
		kill(i, 60*time.Millisecond, "state", "gc")
		if mark := run("run", "echo $MARK"); mark != "old\n" {
			t.Fatalf("after gc %d: MARK=%q", i, mark)
		}
	}
	if killed == 0 { // on a busy machine, many commands end before they are killed
		t.Error("no command was killed")
	}
}
