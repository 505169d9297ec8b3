package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// tree creates files in a new directory. An entry that ends in / is a directory, and "a -> b" is a symbolic link. Every
// other entry is a file that contains its own path.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, target, ok := strings.Cut(e, " -> "); ok {
			must(t, os.Symlink(strings.ReplaceAll(target, "$", dir), filepath.Join(dir, name)))
			continue
		}
		path := filepath.Join(dir, e)
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		if strings.HasSuffix(e, "/") {
			must(t, os.MkdirAll(path, 0o777))
			continue
		}
		must(t, os.WriteFile(path, []byte(e), 0o666))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// space opens the directories as roots. A root that ends in :ro is read-only.
func space(t testing.TB, roots ...string) *workspace.Workspace {
	t.Helper()
	var list []tool.Root
	for _, r := range roots {
		path, ro := strings.CutSuffix(r, ":ro")
		list = append(list, tool.Root{Path: path, Writable: !ro})
	}
	w, err := workspace.Open(list)
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func kind(err error) tool.Kind {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Kind
}

func TestResolve(t *testing.T) {
	dir := tree(t, "w/a/b/file", "w/top", "w2/other", "w-evil/file", "out/secret",
		"w/rel -> a/b", "w/relfile -> a/b/file", "w/abs -> $/w/a", "w/a/up -> ../top", "w/a/b/zigzag -> ../../a/b/../../top",
		"w/cross -> $/w2/other", "w/crossrel -> ../w2", "w/chain -> rel", "w/dangling -> a/new", "w/danglingdir -> nowhere",
		"w/out -> $/out", "w/outrel -> ../out/secret", "w/outfile -> /etc/passwd", "w/evil -> $/w-evil/file",
		"w/loop -> loop", "w/ping -> pong", "w/pong -> ping", "w/deep -> deep/deep", "w/self -> .",
		"w/out/../never/", // out is a symbolic link, so the kernel creates this directory outside of w
		"w2/back -> $/w/abs/b/file", "w/tilde~", "w/...", "w/sp ace", "w/missing -> gone/../top")
	t.Setenv("HOME", filepath.Join(dir, "w"))
	w := space(t, dir+"/w", dir+"/w2:ro")
	for _, c := range []struct {
		path string
		want string // path relative to dir, or "!" and the kind of the expected error
	}{
		{"a/b/file", "w/a/b/file"},
		{"./a//b/./file", "w/a/b/file"},
		{"a/../top", "w/top"},
		{"a/b/../../top/", "w/top"},
		{".", "w"},
		{"~", "w"},
		{"~/top", "w/top"},
		{"tilde~", "w/tilde~"},
		{"...", "w/..."},
		{"sp ace", "w/sp ace"},
		{"../w2/other", "w2/other"},
		{"$/w2/other", "w2/other"},
		{"new", "w/new"},
		{"not/yet/there", "w/not/yet/there"},
		{"top/below", "w/top/below"},
		{"rel/file", "w/a/b/file"},
		{"relfile", "w/a/b/file"},
		{"abs/b/file", "w/a/b/file"},
		{"a/up", "w/top"},
		{"a/b/zigzag", "w/top"},
		{"cross", "w2/other"},
		{"crossrel/other", "w2/other"},
		{"crossrel/new", "w2/new"},
		{"chain/file", "w/a/b/file"},
		{"$/w2/back", "w/a/b/file"},
		{"dangling", "w/a/new"},
		{"danglingdir/x/y", "w/nowhere/x/y"},
		{"rel/../top", "w/top"}, // ".." is removed textually, so the link rel is not followed
		{"self/self/self/top", "w/top"},
		{"", "!invalid_arguments"},
		{"..", "!security"},
		{"../..", "!security"},
		{"../../../../../../etc/passwd", "!security"},
		{"/etc/passwd", "!security"},
		{"/", "!security"},
		{"../w-evil/file", "!security"},
		{"$/w-evil/file", "!security"},
		{"$/w/../w-evil/file", "!security"},
		{"$", "!security"},
		{"out/secret", "!security"},
		{"out", "!security"},
		{"outrel", "!security"},
		{"outfile", "!security"},
		{"evil", "!security"},
		{"a\x00b", "!security"},
		{"\x00", "!security"},
		{"loop", "!invalid_arguments"},
		{"loop/x", "!invalid_arguments"},
		{"ping", "!invalid_arguments"},
		{"deep", "!invalid_arguments"},
		{"missing", "!not_found"},
		{strings.Repeat("x", 300), "!invalid_arguments"},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := strings.ReplaceAll(c.path, "$", dir)
			p, err := w.Resolve(dir+"/w", path)
			if want, bad := strings.CutPrefix(c.want, "!"); bad {
				if string(kind(err)) != want {
					t.Fatalf("got %q, error %v; want an error of kind %s", p, err, want)
				}
				if strings.Contains(err.Error(), "\x00") {
					t.Errorf("the message has a NUL byte: %q", err)
				}
				return
			}
			must(t, err)
			if want := filepath.Join(dir, c.want); p.String() != want {
				t.Errorf("got %s, want %s", p, want)
			}
			if _, err := os.Lstat(p.String()); p.Exists() != (err == nil) {
				t.Errorf("Exists is %v, but Lstat says %v", p.Exists(), err)
			}
			if p.Writable() == strings.Contains(c.want, "w2") {
				t.Errorf("Writable is %v", p.Writable())
			}
		})
	}
}

// TestResolveAsTheKernel checks that Resolve and the kernel resolve paths to the same files.
func TestResolveAsTheKernel(t *testing.T) {
	dir := tree(t, "a/b/c/f", "a/l1 -> b/c/../c", "l2 -> a/l1", "a/b/l3 -> ../../l2/f", "l4 -> $/a/b/l3", "a/b/c/l5 -> ../../../a/l1/../../b")
	w := space(t, dir)
	for _, path := range []string{"a/l1", "a/l1/f", "l2", "l2/f", "a/b/l3", "l4", "a/b/c/l5", "a/b/c/l5/c/f", "a/b/c/l5/l3"} {
		want, err := filepath.EvalSymlinks(filepath.Join(dir, path))
		must(t, err)
		p, err := w.Resolve(dir, path)
		if err != nil || p.String() != want {
			t.Errorf("%s: got %s, error %v; the kernel says %s", path, p, err, want)
		}
	}
}

func TestSecurityMessagesSayWhatToDo(t *testing.T) {
	dir := tree(t, "w/", "out/f", "w/l -> ../out/f")
	w := space(t, dir+"/w")
	for path, want := range map[string][]string{
		"../out/f": {"../out/f", dir + "/out/f", dir + "/w (read-write)", "inside one of the roots", "operator"},
		"l":        {"l → ../out/f", dir + "/w (read-write)"},
	} {
		_, err := w.Resolve(dir+"/w", path)
		for _, s := range want {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the message lacks %q: %v", path, s, err)
			}
		}
	}
	none := space(t)
	if _, err := none.Resolve("/", "etc/passwd"); kind(err) != tool.Security || !strings.Contains(err.Error(), "no access to files") {
		t.Errorf("without roots: %v", err)
	}
	if _, err := w.Resolve("", "x"); kind(err) != tool.InvalidArguments {
		t.Errorf("without a working directory: %v", err)
	}
	t.Setenv("HOME", "")
	if _, err := w.Resolve(dir, "~/x"); kind(err) != tool.InvalidArguments {
		t.Errorf("without a home directory: %v", err)
	}
}

func TestOpenRefusesRoots(t *testing.T) {
	dir := tree(t, "file", "real/sub/", "link -> real")
	for path, want := range map[string]tool.Kind{
		dir + "/nowhere":  tool.NotFound,
		dir + "/file":     tool.InvalidArguments,
		"relative":        tool.InvalidArguments,
		"":                tool.InvalidArguments,
		dir + "/link":     tool.Security,
		dir + "/link/sub": tool.Security,
	} {
		w, err := workspace.Open([]tool.Root{{Path: dir}, {Path: path}})
		if w != nil || kind(err) != want || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want kind %s and the path named", path, err, want)
		}
	}
}

func TestNestedRootsTheInnermostDecides(t *testing.T) {
	dir := tree(t, "w/.git/config", "w/.git/hooks/sub/", "w/src/x", "w/g -> .git")
	w := space(t, dir+"/w", dir+"/w/.git:ro", dir+"/w/.git/hooks/sub")
	for path, writable := range map[string]bool{
		"src/x": true, ".git": false, ".git/config": false, ".git/hooks/new": false, "g/config": false, ".git/hooks/sub/new": true, ".gitignore": true,
	} {
		p, err := w.Resolve(dir+"/w", path)
		must(t, err)
		if p.Writable() != writable {
			t.Errorf("%s: Writable is %v", path, p.Writable())
		}
		if got := filepath.Join(p.Root().Path, p.Rel()); got != p.String() {
			t.Errorf("%s: the root and the rest give %s, the path is %s", path, got, p)
		}
	}
	root, err := w.Resolve(dir+"/w", ".")
	must(t, err)
	entries, _, err := w.ReadDir(root, 0)
	must(t, err)
	for _, e := range entries {
		p, err := w.Entry(root, e)
		if e.Name() == "g" {
			if err == nil {
				t.Error("Entry took a symbolic link")
			}
			continue
		}
		must(t, err)
		if p.Writable() != (e.Name() == "src") {
			t.Errorf("entry %s: Writable is %v", e.Name(), p.Writable())
		}
	}
}

func TestTheWholeDiskAsRoot(t *testing.T) {
	dir := tree(t, "f", "l -> /$/f")
	w := space(t, "/:ro")
	for _, path := range []string{"f", "l", dir + "/f"} {
		p, err := w.Resolve(dir, path)
		if err != nil || p.String() != dir+"/f" || p.Rel() != strings.TrimPrefix(dir, "/")+"/f" {
			t.Errorf("%s: got %s (%s), error %v", path, p, p.Rel(), err)
		}
	}
	if p, err := w.Resolve("/", "../.."); err != nil || p.String() != "/" {
		t.Errorf("got %s, error %v", p, err)
	}
}

func TestRelTo(t *testing.T) {
	dir := tree(t, "a/b")
	p, err := space(t, dir).Resolve(dir, "a/b")
	must(t, err)
	for base, want := range map[string]string{dir: "a/b", dir + "/a/": "b", dir + "/a/b": ".", dir + "/a/bc": p.String(), "/": strings.TrimPrefix(p.String(), "/")} {
		if got := p.RelTo(base); got != want {
			t.Errorf("RelTo(%s) is %s, want %s", base, got, want)
		}
	}
}

// TestARootThatIsReplaced checks a root that is created again or replaced by another directory. The new directory must
// then be used. A symbolic link that replaces a root must be rejected.
func TestARootThatIsReplaced(t *testing.T) {
	dir := tree(t, "w/f", "out/f")
	w := space(t, dir+"/w")
	read := func() (string, error) {
		p, err := w.Resolve(dir+"/w", "f")
		if err != nil {
			return "", err
		}
		s, err := w.ReadFile(p, 100)
		if err != nil {
			return "", err
		}
		return string(s.Data), nil
	}
	if got, err := read(); err != nil || got != "w/f" {
		t.Fatalf("got %q, error %v", got, err)
	}
	must(t, os.Rename(dir+"/w", dir+"/moved"))
	if _, err := read(); kind(err) != tool.NotFound || !strings.Contains(err.Error(), "root "+dir+"/w does not exist") {
		t.Errorf("without the root: %v", err)
	}
	must(t, os.Mkdir(dir+"/w", 0o777))
	must(t, os.WriteFile(dir+"/w/f", []byte("second"), 0o666))
	if got, err := read(); err != nil || got != "second" {
		t.Errorf("after it was made again: %q, error %v", got, err)
	}
	must(t, os.Rename(dir+"/w", dir+"/moved2"))
	must(t, os.Symlink("out", dir+"/w"))
	if got, err := read(); kind(err) != tool.Security {
		t.Errorf("after a link took its place: %q, error %v", got, err)
	}
}

func TestClose(t *testing.T) {
	dir := tree(t, "f")
	w := space(t, dir)
	p, err := w.Resolve(dir, "f")
	must(t, err)
	must(t, w.Close())
	if _, err := w.Resolve(dir, "f"); kind(err) != tool.Internal || !errors.Is(err, os.ErrClosed) {
		t.Errorf("Resolve after Close: %v", err)
	}
	if _, err := w.ReadFile(p, 10); kind(err) != tool.Internal {
		t.Errorf("ReadFile after Close: %v", err)
	}
	if _, err := w.ReadFile(workspace.Path{}, 10); kind(err) != tool.Internal {
		t.Errorf("ReadFile of no path: %v", err)
	}
}

func TestCausesAreKept(t *testing.T) {
	dir := tree(t, "f")
	w := space(t, dir)
	p, err := w.Resolve(dir, "no")
	must(t, err)
	_, err = w.ReadFile(p, 10)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "File does not exist: "+dir+"/no" {
		t.Errorf("got %v", err)
	}
	p, err = w.Resolve(dir, "f/below")
	must(t, err)
	if _, err = w.ReadFile(p, 10); kind(err) != tool.NotFound {
		t.Errorf("got %v", err)
	}
}
