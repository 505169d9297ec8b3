package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/filetype"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/workers"
)

// asNobody is the environment variable of a test process that runs without root's permissions.
const asNobody = "TOOLHOST_TEST_AS_NOBODY"

func TestMain(m *testing.M) {
	if os.Getenv(asNobody) != "" {
		if err := syscall.Setuid(65534); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree creates files in a temporary directory. A name with a final slash becomes a directory, and "a -> b" becomes a
// symbolic link.
func tree(t testing.TB, names ...string) Start {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range names {
		if link, target, ok := strings.Cut(name, " -> "); ok {
			must(t, os.Symlink(target, filepath.Join(dir, link)))
			continue
		}
		name, content, _ := strings.Cut(name, "=")
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o777))
		} else {
			must(t, os.WriteFile(path, []byte(content), 0o666))
		}
	}
	return start(t, dir)
}

func start(t testing.TB, dir string) Start {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return Start{Dir: f, Path: dir, Shown: "."}
}

// walked returns the sorted paths of the files that a walk visits.
func walked(t testing.TB, s Start, o Options) ([]string, *Skipped) {
	t.Helper()
	var mu sync.Mutex
	var out []string
	var skipped Skipped
	err := Walk(t.Context(), s, o, &skipped, func(_ int, d *Dir, e Entry) {
		mu.Lock()
		defer mu.Unlock()
		if !e.Type.IsDir() {
			out = append(out, d.Shown(e.Name))
		}
	})
	must(t, err)
	slices.Sort(out)
	return out, &skipped
}

func TestWalk(t *testing.T) {
	goType, _ := filetype.Find("go")
	globs, err := ignore.NewGlobs([]string{"*.txt"}, nil)
	must(t, err)
	s := tree(t, "a.go=", "b.txt=", "sub/c.go=", "sub/deep/d.txt=", ".hid=", ".hidden/x.go=", ".git/HEAD=", ".gitignore=deep/\n", "empty/", ".h.go=")
	for _, tc := range []struct {
		name            string
		o               Options
		want            string
		ignored, hidden int64
	}{
		{"plain", Options{}, "a.go b.txt sub/c.go", 1, 5},
		{"hidden", Options{Hidden: true}, ".git/HEAD .gitignore .h.go .hid .hidden/x.go a.go b.txt sub/c.go", 1, 0},
		{"no ignore", Options{NoIgnore: true}, "a.go b.txt sub/c.go sub/deep/d.txt", 0, 5},
		{"type", Options{Type: goType}, ".h.go a.go sub/c.go", 1, 2},
		{"globs", Options{Globs: globs}, "b.txt", 1, 2},
		{"dotted", Options{Dotted: func(n string) bool { return n == ".hid" }}, ".hid a.go b.txt sub/c.go", 1, 4},
	} {
		got, skipped := walked(t, s, tc.o)
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if i, h := skipped.Ignored.Load(), skipped.Hidden.Load(); i != tc.ignored || h != tc.hidden {
			t.Errorf("%s: %d ignored and %d hidden, want %d and %d", tc.name, i, h, tc.ignored, tc.hidden)
		}
	}
}

func TestShown(t *testing.T) {
	s := tree(t, "x/y=")
	for shown, want := range map[string]string{".": "x/y", "src": "src/x/y", "/abs/": "/abs/x/y"} {
		s.Shown = shown
		if got, _ := walked(t, s, Options{}); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", shown, got)
		}
	}
}

func TestEveryEntryOnce(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 700 {
		name := fmt.Sprintf("f%04d", i)
		want = append(want, name)
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	if got, _ := walked(t, start(t, dir), Options{}); !slices.Equal(got, want) {
		t.Errorf("%d entries visited, want %d", len(got), len(want))
	}
}

// TestParentRules checks that ignore files above the start are read only through ReadRules.
func TestParentRules(t *testing.T) {
	s := tree(t, ".ignore=*.log\n", "sub/a.log=", "sub/b=", "sub/.ignore -> ../rules", "rules=b\n")
	sub := start(t, filepath.Join(s.Path, "sub"))
	var asked []string
	read := func(path string) ([]byte, error) {
		asked = append(asked, path)
		return os.ReadFile(path)
	}
	if got, _ := walked(t, sub, Options{ReadRules: read}); len(got) != 0 {
		t.Errorf("visited %q", got)
	}
	if want := []string{s.Path + "/.ignore", s.Path + "/sub/.ignore"}; !slices.Equal(asked[len(asked)-2:], want) {
		t.Errorf("read %q, want %q at the end", asked, want)
	}
	if got, _ := walked(t, sub, Options{}); strings.Join(got, " ") != "a.log b" {
		t.Errorf("without the function: %q", got)
	}
}

func TestWorktreeExclude(t *testing.T) {
	s := tree(t, "main/.git/info/exclude=x\n", "main/.git/worktrees/w/commondir=../..\n", "w/x=", "w/y=")
	must(t, os.WriteFile(s.Path+"/w/.git", []byte("gitdir: "+s.Path+"/main/.git/worktrees/w\n"), 0o600))
	got, _ := walked(t, start(t, s.Path+"/w"), Options{ReadRules: os.ReadFile})
	if strings.Join(got, " ") != "y" {
		t.Errorf("visited %q", got)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	s := tree(t, "real/a=", "loop -> .", "dir -> real", "file -> real/a", "out -> /etc", "broken -> nowhere")
	var links []string
	var skipped Skipped
	must(t, Walk(t.Context(), s, Options{}, &skipped, func(_ int, d *Dir, e Entry) {
		if e.Type&fs.ModeSymlink == 0 {
			return
		}
		if _, err := d.Open(e.Name); !errors.Is(err, unix.ELOOP) {
			t.Errorf("opened %s: %v", e.Name, err)
		}
		links = append(links, e.Name)
	}))
	if len(links) != 5 {
		t.Errorf("links %q", links)
	}
}

// TestSwappedForLinks replaces an entry by a symbolic link before the walk opens the entry. The walk must not follow
// the link.
func TestSwappedForLinks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with one worker, the walk visits all entries of a directory before its subdirectories
	outside := tree(t, "secret=", "dir/secret=")
	s := tree(t, "a-file=", "z-dir/inner=")
	swap := func(name, target string) {
		must(t, os.RemoveAll(filepath.Join(s.Path, name)))
		must(t, os.Symlink(target, filepath.Join(s.Path, name)))
	}
	var visited []string
	var skipped Skipped
	must(t, Walk(t.Context(), s, Options{}, &skipped, func(_ int, d *Dir, e Entry) {
		visited = append(visited, d.Shown(e.Name))
		if e.Name == "a-file" {
			swap("a-file", outside.Path+"/secret")
			swap("z-dir", outside.Path+"/dir")
			if f, err := d.Open(e.Name); err == nil {
				_ = f.Close()
				t.Error("the link was opened")
			}
		}
	}))
	if strings.Join(visited, " ") != "a-file z-dir" {
		t.Errorf("visited %q", visited)
	}
	if skipped.Failed.Load() != 1 {
		t.Errorf("the swapped directory was not counted")
	}
}

// TestSwappedOnTheWay replaces a directory by a symbolic link before the walk opens a subdirectory of the directory.
// The link points to another directory in the tree and must not be followed.
func TestSwappedOnTheWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := tree(t, "a/file=", "a/sub/mine=", ".other/sub/secret=")
	var visited []string
	var skipped Skipped
	must(t, Walk(t.Context(), s, Options{}, &skipped, func(_ int, d *Dir, e Entry) {
		visited = append(visited, d.Shown(e.Name))
		if e.Name == "file" {
			must(t, os.Rename(s.Path+"/a", s.Path+"/moved"))
			must(t, os.Symlink(".other", s.Path+"/a"))
		}
	}))
	if strings.Join(visited, " ") != "a a/file a/sub" {
		t.Errorf("visited %q", visited)
	}
}

func TestOpenOnlyRegularFiles(t *testing.T) {
	s := tree(t, "file=content", "dir/")
	must(t, unix.Mkfifo(s.Path+"/fifo", 0o600))
	var skipped Skipped
	must(t, Walk(t.Context(), s, Options{}, &skipped, func(_ int, d *Dir, e Entry) {
		f, err := d.Open(e.Name)
		if e.Name != "file" {
			if err == nil {
				t.Errorf("opened %s", e.Name)
			} else if e.Name == "fifo" && !errors.Is(err, fs.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		must(t, err)
		content, err := io.ReadAll(f)
		if err != nil || string(content) != "content" || f.Size() != 7 {
			t.Errorf("%q of size %d, error %v", content, f.Size(), err)
		}
		must(t, f.Close())
		info, err := d.Stat(e.Name)
		if err != nil || info.Size != 7 || info.Modified.IsZero() {
			t.Errorf("%+v, %v", info, err)
		}
	}))
}

func TestUnreadableDirectory(t *testing.T) {
	if os.Geteuid() == 0 { // root can read every directory
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUnreadableDirectory$", "-test.v")
		cmd.Env = append(os.Environ(), asNobody+"=1", "TMPDIR=/tmp")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestUnreadableDirectory") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := tree(t, "open/a=", "shut/b=", "c=")
	must(t, os.Chmod(s.Path+"/shut", 0))
	t.Cleanup(func() { _ = os.Chmod(s.Path+"/shut", 0o700) })
	got, skipped := walked(t, s, Options{})
	if strings.Join(got, " ") != "c open/a" || skipped.Permission.Load() != 1 {
		t.Errorf("visited %q, %d without permission", got, skipped.Permission.Load())
	}
}

// TestDeep checks a walk through directories whose path is longer than the system allows.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("d", 250)
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	const depth = 20
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o700))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
	var mu sync.Mutex
	deepest := 0
	var skipped Skipped
	must(t, Walk(t.Context(), start(t, dir), Options{}, &skipped, func(_ int, d *Dir, e Entry) {
		mu.Lock()
		defer mu.Unlock()
		deepest = max(deepest, 1+strings.Count(d.Rel(e.Name), "/"))
	}))
	if deepest != depth || skipped.Failed.Load() != 0 {
		t.Errorf("went %d deep of %d, %d failed", deepest, depth, skipped.Failed.Load())
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	must(t, err)
	return len(list)
}

func TestCancel(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("d%d/e/f=", i), fmt.Sprintf("big/%d=", i))
	}
	s := tree(t, names...)
	before := descriptors(t)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	visits := 0
	err := Walk(ctx, s, Options{}, new(Skipped), func(int, *Dir, Entry) {
		mu.Lock()
		defer mu.Unlock()
		visits++
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if visits > workers.Number() {
		t.Errorf("%d visits after the end", visits)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestDescriptorsAreClosed(t *testing.T) {
	s := tree(t, "a/b/c=", "a/d/e=", "f/.ignore=x\n", "f/g=")
	before := descriptors(t)
	walked(t, s, Options{})
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	var entries []string
	for i := range 100 {
		entries = append(entries, fmt.Sprintf("d%d/f=", i))
	}
	s := tree(t, entries...)
	var visits atomic.Int64
	defer func() {
		if n := visits.Load(); n > 50 { // calls of visit that were already running are counted too
			t.Errorf("%d visits after a panic", n)
		}
		if p, ok := recover().(*workers.PanicError); !ok || p.Value != "visited" {
			t.Errorf("recovered %v", p)
		}
	}()
	_ = Walk(t.Context(), s, Options{}, new(Skipped), func(int, *Dir, Entry) {
		visits.Add(1)
		panic("visited")
	})
	t.Error("no panic")
}

func TestVanished(t *testing.T) {
	s := tree(t, "a=")
	must(t, os.RemoveAll(s.Path))
	if got, skipped := walked(t, s, Options{}); len(got) != 0 || skipped.Failed.Load() != 0 {
		t.Errorf("visited %q, %d failed", got, skipped.Failed.Load())
	}
}
