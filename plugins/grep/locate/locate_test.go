package locate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/walk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][2]string{
		"*.go": {"", "*.go"}, "src/*.go": {"src/", "*.go"}, "src/a/**/b": {"src/a/", "**/b"}, "/abs/x/*.go": {"/abs/x/", "*.go"}, "a.go": {"", "a.go"}, "src/a.go": {"src/", "a.go"}, "src/{a,b}/c": {"src/", "{a,b}/c"},
		"src/lib/": {"src/", "lib/"}, "./*.go": {"./", "*.go"}, "../x*": {"../", "x*"}, "/": {"", "/"}, "/*": {"/", "*"}, `a\*/b`: {"", `a\*/b`}, "x[/]y": {"", "x[/]y"}, "src/": {"", "src/"},
	} {
		dir, rest := Split(in)
		if dir != want[0] || rest != want[1] {
			t.Errorf("%s: %q and %q, want %q", in, dir, rest, want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	age := func(path string, hours int) {
		must(t, os.Chtimes(filepath.Join(dir, path), now, now.Add(-time.Duration(hours)*time.Hour)))
	}
	for i, p := range []string{"new.go", "src/mid.go", "src/deep/old.go", "a.txt", ".env", "src/.hid/x.go", ".github/ci.yml", "same1", "same2"} {
		path := filepath.Join(dir, p)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(p), 0o600))
		age(p, min(i, 7))
	}
	f, err := os.Open(dir)
	must(t, err)
	defer func() { _ = f.Close() }()
	find := func(pattern string, o walk.Options, offset, limit int) (string, *Found) {
		t.Helper()
		p, err := Parse(pattern)
		must(t, err)
		found, err := p.Find(t.Context(), walk.Start{Dir: f, Path: dir, Shown: "."}, o, new(walk.Skipped), offset, limit)
		must(t, err)
		var out []string
		for _, file := range found.Files {
			out = append(out, file.Shown)
		}
		return strings.Join(out, " "), found
	}
	for _, tc := range []struct {
		pattern       string
		o             walk.Options
		offset, limit int
		want          string
		total         int
	}{
		{"*.go", walk.Options{}, 0, 0, "new.go", 1},
		{"**/*.go", walk.Options{}, 0, 0, "new.go src/mid.go src/deep/old.go", 3},
		{"**/*.go", walk.Options{}, 0, 2, "new.go src/mid.go", 3},
		{"**/*.go", walk.Options{}, 1, 1, "src/mid.go", 3},
		{"**/*.go", walk.Options{}, 5, 2, "", 3},
		{"**/*.{go,txt}", walk.Options{}, 0, 0, "new.go src/mid.go src/deep/old.go a.txt", 4},
		{"src/**", walk.Options{}, 0, 0, "src/mid.go src/deep/old.go", 2},
		{"same?", walk.Options{}, 0, 0, "same1 same2", 2},
		{"**/*.go", walk.Options{Hidden: true}, 0, 0, "new.go src/mid.go src/deep/old.go src/.hid/x.go", 4},
		{".env", walk.Options{}, 0, 0, ".env", 1},
		{"**/.e*", walk.Options{}, 0, 0, ".env", 1},
		{"{.github,src}/*.{yml,go}", walk.Options{}, 0, 0, "src/mid.go .github/ci.yml", 2},
		{"**/*.yml", walk.Options{}, 0, 0, "", 0},
	} {
		got, found := find(tc.pattern, tc.o, tc.offset, tc.limit)
		if got != tc.want || found.Total != tc.total {
			t.Errorf("%s: %q of %d, want %q of %d", tc.pattern, got, found.Total, tc.want, tc.total)
		}
	}
	got, _ := find("**/", walk.Options{}, 0, 0)
	dirs := strings.Fields(got)
	slices.Sort(dirs)
	if strings.Join(dirs, " ") != "src src/deep" {
		t.Errorf("directories: %q", dirs)
	}
	_, found := find("new.go", walk.Options{}, 0, 0)
	if file := found.Files[0]; file.Type != "file" || file.Size != 6 || !file.Modified.Equal(now) || file.Path != dir+"/new.go" {
		t.Errorf("%+v", file)
	}
	if found.Seen != 6 {
		t.Errorf("%d files seen", found.Seen)
	}
}

// TestNewestAreKept checks that the newest files are kept if the number of files exceeds the limit.
func TestNewestAreKept(t *testing.T) {
	c := &collection{most: 3}
	base := time.Unix(1_000_000, 0)
	for i := range 20_000 {
		c.add(File{Path: "f", Modified: base.Add(time.Duration(i*7919%20_000) * time.Second)})
		if len(c.found.Files) > 10_000 {
			t.Fatal("all are kept")
		}
	}
	c.sort()
	if len(c.found.Files) != 3 || c.found.Total != 20_000 || !c.found.Files[2].Modified.Equal(base.Add(19_997*time.Second)) {
		t.Errorf("%v of %d", c.found.Files, c.found.Total)
	}
}

func TestParseError(t *testing.T) {
	for _, p := range []string{"[a", "{a", "a}", `a\`} {
		if _, err := Parse(p); err == nil {
			t.Errorf("%s: no error", p)
		}
	}
}
