package finder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var long = strings.Repeat("filler line without anything to find in it\n", 2500)

// random runs a test with several fixed seeds. Therefore unchanged code does not fail at random. A failure reports
// its seed; TOOLHOST_SEED=seed reproduces the failure. TOOLHOST_SEED=new selects new seeds.
func random(t *testing.T, times int, test func(t *testing.T, seed uint64, r *rand.Rand)) {
	t.Helper()
	var seeds []uint64
	for i := range times {
		seeds = append(seeds, uint64(i))
	}
	switch s := os.Getenv("TOOLHOST_SEED"); s {
	case "":
	case "new":
		for i := range seeds {
			seeds[i] = uint64(rand.Uint32())
		}
	default:
		seed, err := strconv.ParseUint(s, 10, 64)
		must(t, err)
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			test(t, seed, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

// pick returns a random element.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomTree(r *rand.Rand) []string {
	names := []string{"a", "b", "c", "ab", "x.go", "y.go", "x.txt", "Makefile", ".h", ".x.go", ".x.", "a b", "é"}
	globs := []string{"a", "b/", "/a", "*.go", "!x.go", "a/b", "**/c", "a/**", "**/a/*", "x.*", "[a-b]", "[!a]", "{a,b}", "?", "*", "!*/", ".h", "!.h", ".*", "*.", "a/**/b", "/*", "!/a", "#x", "\\!a", "*.{go,txt}", "a*", "b*/x.*", "  ", "é", "**", "!b", "c/", "/b/"}
	words := []string{"needle", "foo", "bar", "", "needle needle", "Foo", "x\xffy", "été", "\t", "\r", "foo(bar)", "1234", "_a", "nee dle"}
	dirs := []string{""}
	for range 2 + r.IntN(5) {
		dirs = append(dirs, pick(r, dirs...)+pick(r, names...)+"/")
	}
	dirs = slices.Compact(slices.Sorted(slices.Values(dirs)))
	var out []string
	seen := make(map[string]bool)
	for _, d := range dirs {
		seen[strings.TrimSuffix(d, "/")] = true
		if d != "" {
			out = append(out, d)
		}
	}
	add := func(name, content string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name+"="+content)
		}
	}
	for range 6 + r.IntN(14) {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pick(r, words...))
			b.WriteString(pick(r, "\n", "\n", "\n", " ", "\r\n"))
		}
		if r.IntN(12) == 0 {
			b.WriteString(pick(r, "\x00needle\n", long+"\x00needle", long+"needle\n"))
		}
		add(pick(r, dirs...)+pick(r, names...), pick(r, "", "", "", "", "\xEF\xBB\xBF")+b.String())
	}
	for range r.IntN(5) {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(pick(r, globs...) + "\n")
		}
		add(pick(r, dirs...)+pick(r, ".gitignore", ".gitignore", ".ignore", ".rgignore"), b.String())
	}
	if r.IntN(4) > 0 {
		add(".git/HEAD", "x")
	}
	if r.IntN(4) == 0 {
		add(pick(r, dirs...)+".git/HEAD", "x")
	}
	return out
}

// edit makes one random change to the tree. It makes only changes of kinds that occur in practice.
func (h *host) edit(r *rand.Rand, tree []string) {
	h.t.Helper()
	name, _, _ := strings.Cut(pick(r, tree...), "=")
	path, other := h.path(name), h.path(pick(r, "new", "new/b", "n/m/x.go", "a", "b/new.go", ".gitignore", ".ignore", "a/.gitignore", "x.txt", ".git/info/exclude"))
	content := pick(r, "needle\n", "foo\nneedle foo\n", "", "*.go\n", "!x.go\na\n", "/b\n*.txt\n", "\x00needle", "x.y foo(\n")
	switch r.IntN(9) {
	case 0, 1: // replace the content
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			must(h.t, os.WriteFile(path, []byte(content), 0o666))
		}
	case 2, 3: // create a file
		if os.MkdirAll(filepath.Dir(other), 0o777) == nil {
			_ = os.WriteFile(other, []byte(content), 0o666) // the error is ignored: writing fails if the path is a directory
		}
	case 4:
		_ = os.RemoveAll(path)
	case 5:
		_ = os.Rename(path, other)
	case 6: // append to a file
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, err = f.WriteString(content)
			must(h.t, err)
			must(h.t, f.Close())
		}
	case 7: // change the content but neither the size nor the time
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() < 6 {
			return
		}
		old, err := os.ReadFile(path)
		must(h.t, err)
		copy(old, "needle")
		must(h.t, os.WriteFile(path, old, 0o666))
		must(h.t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	case 8: // replace the file by another file
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			must(h.t, os.WriteFile(h.path(".tmp"), []byte(content), 0o666))
			must(h.t, os.Rename(h.path(".tmp"), path))
		}
	}
}

// TestRandomEdits makes random edits and compares the answers of a host with an index with the answers of a host
// that reads the disk.
func TestRandomEdits(t *testing.T) {
	random(t, 8, func(t *testing.T, seed uint64, r *rand.Rand) {
		tree := randomTree(r)
		h := newHost(t, tree...)
		hosts := h.inWays("disk", pick(r, "events", "few"), pick(r, "stat", "small"))
		for round := range 15 {
			for range 1 + r.IntN(5) {
				h.edit(r, tree)
			}
			agree(t, fmt.Sprintf("seed %d round %d", seed, round), hosts)
		}
	})
}
