package listing

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"toolhost.dev/plugins/grep/walk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start creates a temporary directory with files. It opens the directory for a listing.
func start(t *testing.T, files ...string) walk.Start {
	t.Helper()
	root := t.TempDir()
	for _, name := range files {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o777))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	dir, err := os.Open(root) // #nosec G304 -- a path of the test
	must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return walk.Start{Dir: dir, Path: root, Shown: "."}
}

func names(l *Listing) (out []string) {
	for _, e := range l.Entries {
		out = append(out, e.Rel)
	}
	return out
}

// TestGoneByThen checks the listing of entries that are removed or replaced before their metadata is read.
func TestGoneByThen(t *testing.T) {
	s := start(t, "here/x", "elsewhere/x", "file")
	must(t, os.Symlink("elsewhere", filepath.Join(s.Path, "link")))
	for _, order := range []Order{ByPath, Newest} {
		c := collection{o: Options{Order: order, Limit: 10}}
		for _, rel := range []string{"here/gone", "here/x", "nowhere/x", "file/x", "link/x"} {
			c.add(Entry{Rel: rel})
		}
		l, err := c.listing(t.Context(), s)
		must(t, err)
		if got := names(l); !slices.Equal(got, []string{"here/x"}) || l.Total != 1 {
			t.Errorf("%s: %v of %d", order, got, l.Total)
		}
	}
}

// TestKept checks that a collection with a limit drops entries early, and that its listing is still the beginning of
// the complete listing. The entries are added in random order.
func TestKept(t *testing.T) {
	var all []Entry
	for i := range 3000 {
		dir := string(rune('a' + i%26))
		all = append(all, Entry{Rel: dir + "/" + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), known: true})
	}
	for limit := 1; limit <= 81; limit += 40 {
		few, many := collection{o: Options{Limit: limit}}, collection{o: Options{Limit: len(all)}}
		for _, i := range rand.Perm(len(all)) {
			few.add(all[i])
			many.add(all[i])
		}
		if len(few.entries) > 2*limit+600 {
			t.Errorf("%d entries are kept for %d", len(few.entries), limit)
		}
		got, err := few.listing(t.Context(), walk.Start{})
		must(t, err)
		want, err := many.listing(t.Context(), walk.Start{})
		must(t, err)
		if !slices.Equal(names(got), names(want)[:limit]) || got.Total != want.Total {
			t.Errorf("%v of %d, want %v", names(got), got.Total, names(want)[:limit])
		}
	}
}
