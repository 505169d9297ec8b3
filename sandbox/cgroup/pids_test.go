//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFindPids(t *testing.T) {
	for name, tc := range map[string]struct{ cgroup, at, why string }{
		"own":                  {"8:pids:/a\n", "pids/a", ""},
		"together with others": {"8:cpu,pids:/\n", "pids", ""},
		"path of the machine":  {"8:pids:/docker/1\n", "pids", ""},
		"version 2":            {"0::/a\n", "pids", "no cgroup of version 1"},
		"not mounted":          {"8:pids:/a\n", "other", "is not this user's"},
	} {
		mounts, proc := t.TempDir(), t.TempDir()
		dir := filepath.Join(mounts, tc.at)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{filepath.Join(dir, "cgroup.procs"), filepath.Join(proc, "cgroup")} {
			if err := os.WriteFile(path, []byte(tc.cgroup), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := FindPids(mounts, proc)
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && p.dir != dir {
			t.Errorf("%s: %s, want %s", name, p.dir, dir)
		}
	}
}

// TestSweepPids checks that the groups of ended hosts are removed, and that all other groups are kept.
func TestSweepPids(t *testing.T) {
	p := &Pids{dir: t.TempDir()}
	old := time.Now().Add(-time.Hour)
	for name, kept := range map[string]bool{prefix + "999999999-1": false, prefix + "1-1": true, "other-999999999-1": true} {
		dir := filepath.Join(p.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
		p.sweep()
		if exists(dir) != kept {
			t.Errorf("%s: kept %t", name, !kept)
		}
	}
	young := filepath.Join(p.dir, prefix+"999999999-2")
	if err := os.Mkdir(young, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.sweep(); !exists(young) {
		t.Error("a group that a plugin is about to join is removed")
	}
}
