package gitignore_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/branch/internal/gitignore"
)

// TestIgnoredLikeGit checks that the package and git itself ignore the same paths.
func TestIgnoredLikeGit(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		".gitignore": "*.log\n!keep.log\n/build\nnode_modules/\ndoc/*.txt\n# comment\n\\#hash\ntrail \nsp\\ \nx/**\na/**/z\n{b}\n[ab]1\n\\!bang\n**/deep\nonlydir/\n", "sub/.gitignore": "!special.log\nlocal\n/rooted\n", ".git/info/exclude": "excluded\nkeep.log\n",
	}
	paths := strings.Fields("a.log keep.log sub/a.log sub/special.log build/x sub/build/x node_modules/m/i.js s/node_modules/i doc/a.txt doc/s/a.txt #hash trail x/w x/y/z a/z a/b/z a/b/c/z {b} b a1 c1 !bang deep/f q/deep/f onlydir3/onlydir onlydir2/onlydir/f sub/local sub/n/local local sub/rooted sub/n/rooted excluded s/excluded plain sub/plain")
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	for _, p := range paths {
		write(t, filepath.Join(dir, p), "")
	}
	c := exec.Command("git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin")
	c.Dir, c.Stdin = dir, strings.NewReader(strings.Join(paths, "\n"))
	out, _ := c.Output()
	tree := &gitignore.Tree{Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, path)) }}
	ignored := 0
	for _, p := range paths {
		want := bytes.Contains(append([]byte("\n"), out...), []byte("\n"+p+"\n"))
		if want {
			ignored++
		}
		if got := tree.Ignored(p, false); got != want {
			t.Errorf("%s: %t, and git says %t", p, got, want)
		}
	}
	if ignored < 15 || ignored == len(paths) {
		t.Errorf("git ignores %d of %d paths", ignored, len(paths))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
