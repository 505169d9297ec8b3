package confinement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/paths"
	"toolhost.dev/host/internal/sandbox/confine"
	"toolhost.dev/host/internal/sandbox/warden"
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

// BenchmarkMasks measures the check of ten masks before a call, without a search.
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

// TestNames checks which output lines contain a path as a separate word.
func TestNames(t *testing.T) {
	for line, want := range map[string]bool{
		"cat: .env: Permission denied": true, "open './.env'": true, "a/.env/b": true, "x.env: denied": false, ".env.example": false, ".envrc .env": true, "": false,
	} {
		if names(line, ".env") != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

// TestWanted checks the order and the kinds of masks.
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
