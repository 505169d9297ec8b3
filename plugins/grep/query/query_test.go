package query

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/pattern"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, dir string) walk.Start {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return walk.Start{Dir: f, Path: dir, Shown: "."}
}

func newQuery(t testing.TB, expr string, o search.Options, offset, limit int) *Query {
	t.Helper()
	p, err := pattern.Compile(expr, pattern.Options{Multiline: strings.Contains(expr, `\n`)})
	must(t, err)
	return &Query{Pattern: p, Search: o, Offset: offset, Limit: limit}
}

// show formats the results of an answer, one result per line.
func show(a *Answer) []string {
	var out []string
	for _, f := range a.Files {
		if len(f.Groups) == 0 {
			out = append(out, fmt.Sprintf("%s=%d", f.Path, f.Matches))
		}
		for _, g := range f.Groups {
			text := fmt.Sprintf("%s:%d:", f.Path, g.Lines[0].Number)
			for _, part := range [][]search.Line{g.Before, g.Lines, g.After} {
				for _, l := range part {
					text += l.Text + ","
				}
				text += ";"
			}
			out = append(out, text)
		}
	}
	return out
}

// manyFiles creates a tree of files with different numbers of matches.
func manyFiles(t testing.TB) (dir string, total int) {
	t.Helper()
	dir = t.TempDir()
	r := rand.New(rand.NewPCG(2, 3))
	for i := range 120 {
		var b strings.Builder
		for j := range r.IntN(40) {
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "x%d\n", j)
				total++
			} else {
				b.WriteString("other\n")
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%7), fmt.Sprintf("f%03d", i))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	}
	return dir, total
}

// TestPages reads results page by page and in one call. The results must be equal.
func TestPages(t *testing.T) {
	dir, total := manyFiles(t)
	s := start(t, dir)
	for _, tc := range []struct {
		expr string
		o    search.Options
		page int
	}{
		{"x", search.Options{}, 7}, {"x", search.Options{Before: 2, After: 1}, 50}, {"x", search.Options{}, 1000}, {`x\d+\n`, search.Options{After: 1}, 13}, {"x", search.Options{Mode: search.First}, 11}, {"x", search.Options{Mode: search.Count}, 9},
	} {
		whole, err := newQuery(t, tc.expr, tc.o, 0, 0).Tree(t.Context(), s, walk.Options{})
		must(t, err)
		want := show(whole)
		if tc.o.Mode == search.Lines && !strings.Contains(tc.expr, `\n`) && (whole.Total != total || len(want) != total) {
			t.Errorf("%d results of %d, want %d", len(want), whole.Total, total)
		}
		var got []string
		for offset := 0; ; {
			a, err := newQuery(t, tc.expr, tc.o, offset, tc.page).Tree(t.Context(), s, walk.Options{})
			must(t, err)
			if a.Total != whole.Total || a.Matched != whole.Matched || a.Searched != 120 {
				t.Fatalf("page at %d: %d in %d of %d, want %d in %d", offset, a.Total, a.Matched, a.Searched, whole.Total, whole.Matched)
			}
			if a.Given == 0 {
				break
			}
			got = append(got, show(a)...)
			offset += a.Given
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %+v in pages of %d: %d results, want %d", tc.expr, tc.o, tc.page, len(got), len(want))
		}
	}
}

func TestSingleFilePages(t *testing.T) {
	text := strings.Repeat("x\ny\n", 30)
	var got []string
	for offset := 0; offset < 30; offset += 4 {
		a, err := newQuery(t, "x", search.Options{After: 1}, offset, 4).File(t.Context(), strings.NewReader(text), 0, "f")
		must(t, err)
		if a.Total != 30 || a.Given != min(4, 30-offset) {
			t.Errorf("at %d: %d of %d", offset, a.Given, a.Total)
		}
		got = append(got, show(a)...)
	}
	if len(got) != 30 || got[29] != "f:59:;x,;y,;" {
		t.Errorf("%q", got)
	}
}

// TestLinesAreDropped adds files in random order to an answer with more matches than the limit. The answer must keep
// only few lines, but the first ones, and it must count all matches.
func TestLinesAreDropped(t *testing.T) {
	c := &collection{limit: 10}
	r := rand.New(rand.NewPCG(4, 4))
	order := r.Perm(5000)
	for _, i := range order {
		path := fmt.Sprintf("%05d", i)
		f := found{spot: spot{path: path}, Result: search.Result{Matches: 2, Binary: -1}, wanted: 2}
		if !c.beyond(spot{path: path}) {
			f.Lines = []search.Line{{Number: 1, Text: path, Match: true, Column: 1}, {Number: 3, Text: path, Match: true, Column: 1}}
		}
		c.add(i%4, f)
	}
	if c.kept > c.limit+slack+2 {
		t.Errorf("%d kept", c.kept)
	}
	a := &Answer{}
	c.lines(a, 10, search.Options{})
	want := []string{"00000:1:;00000,;;", "00000:3:;00000,;;", "00001:1:;00001,;;"}
	if !slices.IsSortedFunc(c.files, compareFound) || len(c.files) != 5000 {
		t.Errorf("%d files, or not in order", len(c.files))
	}
	if got := show(a); len(got) != 10 || !slices.Equal(got[:3], want) || c.matches() != 10_000 {
		t.Errorf("%d of %d: %q", len(got), c.matches(), got)
	}
}

// TestNothingIsLeftOutInBetween checks that an answer ends with the first file whose lines were dropped. Otherwise
// matches in the middle of the answer would be missing.
func TestNothingIsLeftOutInBetween(t *testing.T) {
	c := &collection{limit: 1 << 40}
	line := []search.Line{{Number: 1, Text: "x", Match: true, Column: 1}}
	c.add(1, found{spot: spot{path: "a"}, Result: search.Result{Matches: 1, Lines: line}, wanted: 1})
	c.add(0, found{spot: spot{path: "b"}, Result: search.Result{Matches: 5, Lines: line}, wanted: 5})
	c.add(1, found{spot: spot{path: "c"}, Result: search.Result{Matches: 1, Lines: line}, wanted: 1})
	a := &Answer{}
	c.lines(a, 0, search.Options{})
	if got := show(a); strings.Join(got, " ") != "a:1:;x,;; b:1:;x,;;" {
		t.Errorf("%q", got)
	}
}

func TestTextIsLimited(t *testing.T) {
	var b strings.Builder
	for range 3000 {
		b.WriteString("x" + strings.Repeat("y", 4000) + "\n")
	}
	a, err := newQuery(t, "x", search.Options{Before: 50}, 0, 0).File(t.Context(), strings.NewReader(b.String()), 0, "f")
	must(t, err)
	size := 0
	for _, s := range show(a) {
		size += len(s)
	}
	if a.Total != 3000 || a.Given == 3000 || a.Given == 0 || size > 2*MaxText {
		t.Errorf("%d of %d given, %d bytes", a.Given, a.Total, size)
	}
}

func TestNamesAreLimited(t *testing.T) {
	c := &collection{}
	for i := range 100_000 {
		c.add(i%3, found{spot: spot{path: fmt.Sprintf("%s%06d", strings.Repeat("d/", 50), i)}, Result: search.Result{Matches: 1}})
	}
	a, rest := &Answer{}, &Answer{}
	c.numbers(a, 0, 1<<40)
	c.numbers(rest, a.Given, 1<<40)
	if a.Given == 0 || a.Given == 100_000 || a.Given != len(a.Files) || rest.Files[0].Path <= a.Files[a.Given-1].Path {
		t.Errorf("%d given, then %d", a.Given, rest.Given)
	}
}

// TestComparePaths compares the sort order of paths with the order of a walk that sorts the names of each directory.
func TestComparePaths(t *testing.T) {
	paths := []string{"a", "a/b", "a.go", "a-b", "a/b/c", "ab", "A", "a/b.go", "é", "a b", "a/", "b/a"}
	slices.SortFunc(paths, comparePaths)
	want := slices.Clone(paths)
	slices.SortStableFunc(want, func(a, b string) int {
		x, y := strings.Split(a, "/"), strings.Split(b, "/")
		return slices.Compare(x, y)
	})
	if !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

func TestSkipped(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/text", []byte("x"), 0o600))
	must(t, os.WriteFile(dir+"/binary", []byte("x\x00"), 0o600))
	must(t, os.Symlink("text", dir+"/link"))
	big, err := os.Create(dir + "/big")
	must(t, err)
	_, err = big.WriteString("x\n")
	must(t, err)
	must(t, big.Truncate(search.MaxWhole+10))
	must(t, big.Close())
	for expr, want := range map[string]Skipped{"x": {Binary: 2, Symlink: 1}, `x\n?`: {Binary: 1, Symlink: 1, TooLarge: 1}} {
		searched := 3 - want.TooLarge
		q := newQuery(t, expr, search.Options{}, 0, 0)
		a, err := q.Tree(t.Context(), start(t, dir), walk.Options{})
		must(t, err)
		if a.Skipped != want || a.Searched != searched || a.Total != 1 {
			t.Errorf("%s: %+v of %d, %d found; want %+v", expr, a.Skipped, a.Searched, a.Total, want)
		}
	}
}

func TestEndOfContext(t *testing.T) {
	dir, _ := manyFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := newQuery(t, "x", search.Options{}, 0, 0)
	if _, err := q.Tree(ctx, start(t, dir), walk.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("tree: %v", err)
	}
	if _, err := q.File(ctx, strings.NewReader("x"), 1, "f"); !errors.Is(err, context.Canceled) {
		t.Errorf("file: %v", err)
	}
}
