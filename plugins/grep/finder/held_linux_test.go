package finder

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/sdk/tooltest"
)

// TestHeldOpen replaces, moves or changes directories that an index may hold open. It checks that later answers equal
// those of a search of the disk.
func TestHeldOpen(t *testing.T) {
	rename := func(from, to string) func(*host) {
		return func(h *host) { must(h.t, os.Rename(h.path(from), h.path(to))) }
	}
	exchange := func(a, b string) func(*host) {
		return func(h *host) {
			must(h.t, unix.Renameat2(unix.AT_FDCWD, h.path(a), unix.AT_FDCWD, h.path(b), unix.RENAME_EXCHANGE))
		}
	}
	mount := func(name string) func(*host) {
		return func(h *host) {
			from := filepath.Join(filepath.Dir(h.cwd), "mounted")
			must(h.t, os.MkdirAll(from, 0o777))
			must(h.t, os.WriteFile(filepath.Join(from, "m.txt"), []byte("needle mounted\n"), 0o666))
			must(h.t, unix.Mount(from, h.path(name), "", unix.MS_BIND, ""))
			h.t.Cleanup(func() { _ = unix.Unmount(h.path(name), unix.MNT_DETACH) })
		}
	}
	for _, tc := range []struct {
		name   string
		mounts bool
		do     []func(*host)
	}{
		{"replaced by one of the same shape", false, []func(*host){rename("sub", ".old"), rename(".twin", "sub")}},
		{"replaced twice", false, []func(*host){exchange("sub", ".twin"), exchange("sub", ".twin"), exchange("sub/deep", ".twin/deep")}},
		{"exchanged beneath", false, []func(*host){exchange("sub/deep", "other/deep")}},
		{"moved, and what is in it written to", false, []func(*host){rename("sub", "moved"), func(h *host) { h.add("moved/deep/d.txt=needle moved\n") }}},
		{"moved there and back", false, []func(*host){rename("sub", ".old"), rename(".old", "sub")}},
		{"removed and made again", false, []func(*host){
			func(h *host) { must(h.t, os.RemoveAll(h.path("sub"))) }, func(h *host) { h.add("sub/deep/d.txt=needle again\n") },
		}},
		{"mounted over", true, []func(*host){mount("sub"), func(h *host) { must(h.t, unix.Unmount(h.path("sub"), 0)) }}},
		{"mounted over beneath", true, []func(*host){mount("sub/deep")}},
		{"written to", false, []func(*host){
			func(h *host) { h.add("sub/deep/d.txt=needle now\n") }, func(h *host) { h.add("sub/c.go=needle now\n") },
			func(h *host) { h.add("sub/deep/.ignore=*\n") },
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.mounts && !mayMount(t) {
				return
			}
			top := newHost(t)
			h := *top
			h.cwd = top.path("root")
			must(t, os.Mkdir(h.cwd, 0o777))
			h.roots[0].Path = h.cwd
			for _, e := range []string{
				".git/HEAD=x", "a.txt=needle one\n", "sub/c.txt=needle\n", "sub/deep/d.txt=x\nneedle\n", ".twin/c.txt=twin needle\n",
				".twin/deep/d.txt=needle in the twin\n", "other/deep/d.txt=another needle\n", "other/deep/more/e.txt=needle\n",
			} {
				h.add(e)
			}
			t.Parallel()
			time.Sleep(2 * time.Duration(freshness.LocalSlack)) // wait, because an index does not hold young directories open
			hosts := h.inWays("disk", "events", "stat", "few")
			agree(t, "before", hosts)
			for _, way := range []string{"stat", "few"} {
				if n := hosts[way].finder.indexes().Report().Trees[0].Held; n == 0 {
					t.Errorf("%s: no directory is held open", way)
				}
			}
			for _, do := range tc.do {
				do(&h)
				agree(t, "after", hosts)
				agree(t, "once more", hosts)
			}
		})
	}
}

// mayMount reports whether this process has permission to mount. Without permission, mayMount runs the test again in
// a namespace that permits mounting.
func mayMount(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		tooltest.InUserNamespace(t, err)
		return false
	}
	must(t, unix.Unmount(dir, 0))
	return true
}

// TestNarrowed changes files that do not match the glob of a call. It checks that later calls without the glob find
// the changes.
func TestNarrowed(t *testing.T) {
	home := ownHome(t)
	h := newHost(t, ".git/HEAD=x", "a.txt=needle\n", "b.txt=needle\n", "sub/a.txt=needle\n", "sub/b.txt=needle\n", "global.txt=needle\n")
	config := filepath.Join(home, "config", "git")
	must(t, os.MkdirAll(config, 0o777))
	must(t, os.WriteFile(filepath.Join(config, "ignore"), []byte("global.txt\n"), 0o666))
	hosts := h.inWays("disk", "events", "stat", "few")
	narrow := args{"pattern": "needle", "glob": []string{"!b.txt"}}
	check := func(name string, calls ...args) {
		t.Helper()
		for _, a := range calls {
			agreeOn(t, name, hosts, "grep", a)
		}
	}
	check("before", narrow, narrow)
	h.add("b.txt=needle b\n")
	h.add("sub/b.txt=no more\n")
	check("others written to", narrow, args{"pattern": "needle"})
	h.add("b.txt=no more\n")
	h.add("a.txt=no more\n")
	check("both written to", narrow, args{"pattern": "needle", "glob": []string{"b.*"}}, args{"pattern": "needle", "type": "txt"})
	h.add("global.txt=needle global\n")
	must(t, os.Rename(h.path(".git"), h.path("git")))
	check("wanted from now on", narrow, args{"pattern": "needle"})
}
