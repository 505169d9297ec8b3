package finder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/index"
)

// agree checks that hosts with the same directory return the same answers as a host that searches the disk.
func agree(t *testing.T, name string, hosts map[string]*host) {
	t.Helper()
	calls := []struct {
		tool string
		args args
	}{
		{"grep", args{"pattern": "needle", "head_limit": 0}}, {"grep", args{"pattern": "needle", "hidden": true, "no_ignore": true, "head_limit": 0}},
		{"grep", args{"pattern": "e+", "output_mode": "count", "head_limit": 0}}, {"glob", args{"pattern": "**/*", "head_limit": 0}}, {"glob", args{"pattern": "**/*/", "head_limit": 0}},
		{"list", args{"recursive": true}}, {"list", args{"recursive": true, "sort": "modified", "hidden": false}}, {"list", args{"pattern": "**/*.txt", "no_ignore": true}},
		{"grep", args{"pattern": "needle", "glob": []string{"*.txt", "!b.*"}, "head_limit": 0}}, {"grep", args{"pattern": "needle", "type": "txt", "path": "sub", "head_limit": 0}},
	}
	for _, c := range calls {
		agreeOn(t, name, hosts, c.tool, c.args)
	}
}

// agreeOn compares the answers of hosts to one call.
func agreeOn(t *testing.T, name string, hosts map[string]*host, tool string, a args) {
	t.Helper()
	want := hosts["disk"].call(tool, a)
	if want.Error != nil && a["path"] == nil {
		t.Fatalf("%s: %s %v: %v", name, tool, a, want.Error)
	}
	for way, h := range hosts {
		if way == "disk" {
			continue
		}
		got := h.call(tool, a)
		if (got.Error == nil) != (want.Error == nil) || got.Output != want.Output || string(got.Data) != string(want.Data) {
			t.Errorf("%s: %s %s %v: %v\ngot\n%.1500s\nwant\n%.1500s", name, way, tool, a, got.Error, got.Output, want.Output)
		}
	}
}

// TestFresh changes a tree in many ways. It checks that the answers after each change equal those of a search of the
// disk.
func TestFresh(t *testing.T) {
	write := func(name, content string) func(*host) {
		return func(h *host) { h.add(name + "=" + content) }
	}
	all := func(do ...func(*host)) func(*host) {
		return func(h *host) {
			for _, f := range do {
				f(h)
			}
		}
	}
	rename := func(from, to string) func(*host) {
		return func(h *host) { must(h.t, os.Rename(h.path(from), h.path(to))) }
	}
	remove := func(name string) func(*host) {
		return func(h *host) { must(h.t, os.RemoveAll(h.path(name))) }
	}
	link := func(from, to string) func(*host) {
		return func(h *host) { must(h.t, os.Link(h.path(from), h.path(to))) }
	}
	keepTime := func(name, content string) func(*host) {
		return func(h *host) {
			info, err := os.Stat(h.path(name))
			must(h.t, err)
			h.add(name + "=" + content)
			must(h.t, os.Chtimes(h.path(name), info.ModTime(), info.ModTime()))
		}
	}
	for _, tc := range []struct {
		name string
		do   func(*host)
	}{
		{"rewritten", write("a.txt", "needle new\n")},
		{"to nothing", write("a.txt", "")},
		{"same size and time", keepTime("a.txt", "noodle one\n")},
		{"touched", func(h *host) { must(h.t, os.Chtimes(h.path("a.txt"), time.Unix(1e9, 0), time.Unix(1e9, 0))) }},
		{"appended", func(h *host) { appendTo(h, "a.txt", "needle two\n") }},
		{"truncated", func(h *host) { must(h.t, os.Truncate(h.path("a.txt"), 3)) }},
		{"created", write("new.txt", "needle\n")},
		{"removed", remove("a.txt")},
		{"renamed", rename("a.txt", "z.txt")},
		{"renamed over", rename("b.txt", "a.txt")},
		{"text to binary", write("a.txt", "needle\x00")},
		{"binary to text", write("binary", "needle\n")},
		{"long to short", write("long.txt", "needle\n")},
		{"UTF-16", write("a.txt", "\xFF\xFEn\x00e\x00e\x00d\x00l\x00e\x00\n\x00")},
		{"new directories", write("n/e/w/x.txt", "needle\n")},
		{"directory renamed", rename("sub", "other")},
		{"directory renamed, then written to", all(rename("sub", "other"), write("other/c.txt", "needle c\n"))},
		{"directory moved in", func(h *host) {
			from := h.t.TempDir()
			must(h.t, os.MkdirAll(filepath.Join(from, "d/e"), 0o777))
			must(h.t, os.WriteFile(filepath.Join(from, "d/e/f"), []byte("needle"), 0o666))
			must(h.t, os.Rename(filepath.Join(from, "d"), h.path("d")))
		}},
		{"directory moved out", func(h *host) { must(h.t, os.Rename(h.path("sub"), filepath.Join(h.t.TempDir(), "out"))) }},
		{"directory replaced", all(rename("sub", ".old"), write("sub/c.txt", "needle in another\n"))},
		{"directory removed", remove("sub")},
		{"directory removed and made again", all(remove("sub"), write("sub/deep/d.txt", "needle again\n"))},
		{"file to directory", all(remove("a.txt"), write("a.txt/x", "needle\n"))},
		{"directory to file", all(remove("sub"), write("sub", "needle\n"))},
		{"file to link", all(remove("a.txt"), func(h *host) { h.add("a.txt -> b.txt") })},
		{"file to FIFO", all(remove("a.txt"), func(h *host) { must(h.t, unix.Mkfifo(h.path("a.txt"), 0o600)) })},
		{"ignored", write(".gitignore", "*.txt\n")},
		{"ignored no more", write(".gitignore", "# nothing\n")},
		{"ignore file removed", remove(".gitignore")},
		{"ignored below", write("sub/.ignore", "deep\n")},
		{"ignore file renamed", rename(".gitignore", "sub/.gitignore")},
		{"no repository", rename(".git", "git")},
		{"a repository in it", all(write("sub/.git/HEAD", "x"), write("sub/x.log", "needle\n"))},
		{"excluded", write(".git/info/exclude", "b.txt\n")},
		{"above the root", func(h *host) {
			must(h.t, os.WriteFile(filepath.Join(filepath.Dir(h.cwd), ".ignore"), []byte("b.txt\n"), 0o666))
		}},
		{"an ignore file by a link", func(h *host) { h.add("rules=b.txt\nsub\n") }},
		{"through a name inside", all(link("a.txt", "linked.txt"), write("linked.txt", "needle by another name\n"))},
		{"through a name outside", func(h *host) { must(h.t, os.WriteFile(outside(h), []byte("needle from outside\n"), 0o666)) }},
		{"a name outside removed", func(h *host) { must(h.t, os.Remove(outside(h))) }},
		{"open and not closed", func(h *host) {
			f, err := os.OpenFile(h.path("a.txt"), os.O_WRONLY, 0)
			must(h.t, err)
			h.t.Cleanup(func() { _ = f.Close() })
			_, err = f.WriteString("needle X\n")
			must(h.t, err)
		}},
		{"stored through a mapping", func(h *host) { stores(h, "mapped.txt", true)() }},
		{"stored through a mapping, closed", func(h *host) { stores(h, "a.txt", false)() }},
		{"hidden directory", all(write(".h/x", "needle\n"), rename("sub", ".sub"))},
		{"hidden no more", rename(".hidden", "seen")},
		{"a directory replaced among many", all(write("n/c.txt", "needle in another\n"), rename("sub", ".old"), rename("n", "sub"), func(h *host) {
			for i := range 100 {
				h.add(fmt.Sprintf("m%d=needle %d\n", i, i))
			}
		})},
		{"many", func(h *host) {
			for i := range 300 {
				h.add(fmt.Sprintf("many/%d/f=needle %d\n", i%7, i))
				h.add(fmt.Sprintf("m%d=needle %d\n", i, i))
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			staysFresh(t, tc.do)
		})
	}
}

// TestFreshGlobal changes git's global excludes file. It checks that later answers apply the changed rules.
func TestFreshGlobal(t *testing.T) {
	path := filepath.Join(ownHome(t), "config", "git", "ignore")
	staysFresh(t, func(*host) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must(t, os.WriteFile(path, []byte("c.txt\n"), 0o666))
	})
}

// staysFresh compares answers with the answers of a search of the disk, before and after a change.
func staysFresh(t *testing.T, do func(*host)) {
	t.Helper()
	top := newHost(t)
	h := *top
	h.cwd = top.path("root")
	must(t, os.Mkdir(h.cwd, 0o777))
	h.roots[0].Path = h.cwd
	for _, e := range []string{
		".git/HEAD=x", ".gitignore=*.log\n", "a.txt=needle one\n", "b.txt=nothing\nneedle\n", "x.log=needle\n", "binary=\x00needle", "long.txt=" + strings.Repeat("needle ", 5000) + "\n" + long,
		"sub/c.txt=needle\n", "sub/deep/d.txt=x\nneedle\n", ".hidden/h.txt=needle\n", "rules=d.txt\n", ".rgignore -> rules", "empty/",
	} {
		h.add(e)
	}
	must(t, os.WriteFile(outside(&h), []byte("needle\n"), 0o666))
	must(t, os.Link(outside(&h), h.path("shared.txt")))
	hosts := h.inWays("disk", "events", "stat")
	agree(t, "before", hosts)
	do(&h)
	agree(t, "after", hosts)
	h.add("a.txt2=needle after all\n")
	agree(t, "and then", hosts)
	for way, o := range hosts {
		if res := o.call("grep", args{"pattern": "x"}); way != "disk" && res.Metadata["index"] != index.Ready {
			t.Errorf("%s: the index is %v", way, res.Metadata["index"])
		}
	}
}

// outside returns the path of a file outside of the root. The file is a hard link to shared.txt.
func outside(h *host) string { return filepath.Join(filepath.Dir(h.cwd), "outside.txt") }

func appendTo(h *host, name, content string) {
	h.t.Helper()
	f, err := os.OpenFile(h.path(name), os.O_WRONLY|os.O_APPEND, 0)
	must(h.t, err)
	_, err = f.WriteString(content)
	must(h.t, err)
	must(h.t, f.Close())
}

// stores returns a function that writes to a file through a memory mapping. If create is true, that function
// creates the file. The mapping exists until the end of the test.
func stores(h *host, name string, create bool) func() {
	h.t.Helper()
	return func() {
		f, err := os.OpenFile(h.path(name), os.O_RDWR|os.O_CREATE, 0o666)
		must(h.t, err)
		if create {
			must(h.t, f.Truncate(7))
			h.call("grep", args{"pattern": "x"})
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(h.t, err)
		must(h.t, f.Close())
		copy(m, "needle\n")
		if create {
			h.t.Cleanup(func() { _ = unix.Munmap(m) })
			return
		}
		must(h.t, unix.Munmap(m))
	}
}
