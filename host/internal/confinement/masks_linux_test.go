package confinement

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/paths"
	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/stamp"
	"toolhost.dev/sandbox/warden"
)

// mounts returns the paths of n mounts of this process. The mounts represent masks.
func mounts(tb testing.TB, n int) map[string]string {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tb.Fatal(err)
	}
	out := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] != "/" && len(out) < n {
			if _, err := os.Lstat(f[4]); err == nil {
				out[f[4]] = confine.Protect
			}
		}
	}
	if len(out) < n {
		tb.Skipf("this machine has only %d mounts", len(out))
	}
	return out
}

// BenchmarkMasks measures how long it takes to check that ten masks are still mounted. This is the check before a call
// without a new search.
func BenchmarkMasks(b *testing.B) {
	inside, err := warden.Enter(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer inside.Close()
	var all masks
	dir := b.TempDir()
	p := &masked{search: all.search(&paths.Rules{Names: []string{".vscode"}}, []paths.Root{{Path: dir, Writable: true}}), roots: []tool.Root{{Path: dir}}, inside: inside, applied: mounts(b, 10)}
	_, generation, err := p.search.Sweep()
	if err != nil {
		b.Fatal(err)
	}
	p.generation = generation
	matches, _, _ := p.search.Recent(1 << 62)
	b.ResetTimer()
	for b.Loop() {
		if err := p.check(matches, generation); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNames checks which lines of a program's output count as naming a path.
func TestNames(t *testing.T) {
	for line, want := range map[string]bool{
		"cat: .env: Permission denied": true, "open './.env'": true, "a/.env/b": true, "x.env: denied": false, ".env.example": false, ".envrc .env": true, "": false,
	} {
		if names(line, ".env") != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

// TestWanted checks the order and the kinds of the masks that are made for matches.
func TestWanted(t *testing.T) {
	p := &masked{writes: true, roots: []tool.Root{{Path: "/ws", Writable: true}}}
	matches := []paths.Match{{Path: "/ws/.env", Hidden: true}, {Path: "/ws/a/.vscode", Setting: true}, {Path: "/ws/b/c/keep"}, {Path: "/ws/b/d/keep"}}
	got := func() (out []string) {
		for _, m := range p.wanted(matches) {
			out = append(out, m.Kind+" "+filepath.ToSlash(m.Path))
		}
		return out
	}
	want := "hide /ws/.env, protect /ws/a/.vscode, fix /ws/b, fix /ws/b/c, protect /ws/b/c/keep, fix /ws/b/d, protect /ws/b/d/keep"
	if all := strings.Join(got(), ", "); all != want {
		t.Errorf("%s, wanted %s", all, want)
	}
	p.writes = false
	if all := strings.Join(got(), ", "); all != "hide /ws/.env" {
		t.Errorf("of a plugin that only reads: %s", all)
	}
}

// TestExpireBelow checks that a search of a branch that is marked as too old finds a new file in the workspace. A file
// in a subdirectory does not change the root, so the search of the workspace itself must also be marked.
func TestExpireBelow(t *testing.T) {
	base, layer := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	time.Sleep(stamp.Settled + 50*time.Millisecond) // from here on, a stamp shows whether the directories changed
	var all masks
	s := all.search(&paths.Rules{Hide: []string{"**/*.env"}}, []paths.Root{{Path: base, Layer: layer}})
	found := func() int {
		t.Helper()
		matches, _, err := s.sweep()
		if err != nil {
			t.Fatal(err)
		}
		return len(matches)
	}
	if n := found(); n != 0 {
		t.Fatalf("%d matches in an empty directory", n)
	}
	if err := os.WriteFile(filepath.Join(base, "d", "late.env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.expire()
	if n := found(); n != 1 {
		t.Errorf("%d matches after a file was created", n)
	}
}

// TestFailedMask checks that a mask that could not be mounted is reported at each check, also if the search finds the
// same paths as before, and if the search fails.
func TestFailedMask(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "a.env")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside, err := warden.Enter(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var all masks
	p := &masked{
		search: all.search(&paths.Rules{Hide: []string{"**/*.env"}}, []paths.Root{{Path: dir}}), roots: []tool.Root{{Path: dir}}, inside: inside,
		launcher: filepath.Join(dir, "none"), applied: map[string]string{secret: confine.Hide}, seen: make(map[string]bool),
	}
	_, p.generation, err = p.search.Sweep() // as if the mask had been mounted, and then a program had replaced the file
	if err != nil {
		t.Fatal(err)
	}
	all.plugins = append(all.plugins, p)
	defer all.remove(p)
	for range 2 {
		if err := all.check(p); err == nil || !strings.Contains(err.Error(), "cannot be masked") {
			t.Errorf("a mask that cannot be mounted: %v", err)
		}
	}
	for i := range paths.MaxMatches {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".env"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.search.expire()
	if err := all.check(p); err == nil || !strings.Contains(err.Error(), "at most") || !strings.Contains(err.Error(), "cannot be masked") {
		t.Errorf("with too many denied paths: %v", err)
	}
}
