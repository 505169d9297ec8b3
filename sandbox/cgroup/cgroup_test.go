//go:build linux

package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tree creates directories that imitate the cgroup /a/b. The group contains this process.
func tree(t *testing.T, files map[string]string) (mounts, proc, dir string) {
	t.Helper()
	mounts, proc = t.TempDir(), t.TempDir()
	dir = filepath.Join(mounts, "a", "b")
	all := map[string]string{
		filepath.Join(proc, "cgroup"): "1:name=systemd:/x\n0::/a/b\n",
		"cgroup.controllers":          "cpuset cpu io memory pids\n", "cgroup.procs": strconv.Itoa(os.Getpid()) + "\n", "cgroup.subtree_control": "",
	}
	for name, text := range files {
		if name == "cgroup" {
			name = filepath.Join(proc, name)
		}
		all[name] = text
	}
	for name, text := range all {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if text == "none" {
			continue
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mounts, proc, dir
}

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		why   string
	}{
		"delegated":    {nil, ""},
		"version 1":    {map[string]string{"cgroup": "3:memory:/\n"}, "cgroups of version 2 are not available"},
		"hybrid":       {map[string]string{"cgroup.controllers": "none"}, "cgroups of version 2 are not available"},
		"no memory":    {map[string]string{"cgroup.controllers": "cpu pids"}, "does not have the controller memory"},
		"others in it": {map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid()) + "\n1\n"}, "the cgroup /a/b contains other processes too"},
		"foreign":      {map[string]string{"cgroup.subtree_control": "none"}, "belongs to another user"},
		"no cgroups":   {map[string]string{"cgroup": "none"}, "there are no cgroups"},
	} {
		mounts, proc, _ := tree(t, tc.files)
		_, err := Find(mounts, proc)
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMake(t *testing.T) {
	mounts, proc, dir := tree(t, nil)
	tr, err := Find(mounts, proc)
	if err != nil {
		t.Fatal(err)
	}
	// The kernel creates the files of a new group. In this fake tree they are missing.
	if _, err := tr.Make("bash", Limits{Processes: 5}); err == nil || !strings.Contains(err.Error(), "no child cgroup can be made") {
		t.Fatalf("what cannot be divided was: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, own, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Make("bash", Limits{Processes: 5}); err == nil || !strings.Contains(err.Error(), "cannot be limited") {
		t.Fatalf("what cannot be limited was: %v", err)
	}
	for name, want := range map[string]string{filepath.Join(own, "cgroup.procs"): strconv.Itoa(os.Getpid()), "cgroup.subtree_control": "+cpu +memory +pids"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s has %q, want %q: %v", name, b, want, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "toolhost-bash-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	g, err := tr.Make("bash", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	if g.Start(cmd); !cmd.SysProcAttr.UseCgroupFD || cmd.SysProcAttr.CgroupFD != int(g.Dir.Fd()) {
		t.Error("the command does not start in the group")
	}
	// A new configuration calls Find again. The process is then in the child cgroup.
	if err := os.WriteFile(filepath.Join(proc, "cgroup"), []byte("0::/a/b/"+own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, own, "cgroup.controllers"), []byte("cpu memory pids"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Find(mounts, proc)
	if err != nil {
		t.Fatal(err)
	}
	other, err := again.Make("bash", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*Group{g, other} {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// TestHere creates a real group if this machine has a delegated cgroup.
func TestHere(t *testing.T) {
	tr, err := Find("/sys/fs/cgroup", "/proc/self")
	if err != nil {
		t.Skip(err)
	}
	g, err := tr.Make("test", Limits{Memory: 64 << 20, Processes: 8, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; wait")
	g.Start(cmd)
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "fork") {
		t.Errorf("twelve processes ran where eight may: %s", out)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}
