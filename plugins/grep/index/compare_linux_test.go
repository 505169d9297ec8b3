package index

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/freshness"
)

// TestOldTimes sets the time of a directory back after adding an entry. The new entry must be found.
func TestOldTimes(t *testing.T) {
	x, _, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a")
	a := filepath.Join(root, "a")
	info, err := os.Stat(a)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(a, "f"), nil, 0o600))
	must(t, os.Chtimes(a, info.ModTime(), info.ModTime()))
	must(t, x.sync(root, nil, false))
	if n := len(x.lookup(a).entries); n != 1 {
		t.Errorf("%d entries are known", n)
	}
	x.close()
}

// TestSameTick makes a change in the same clock tick as the listing, which leaves the stamp unchanged. The change
// must be found.
func TestSameTick(t *testing.T) {
	x, _, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a")
	a := filepath.Join(root, "a")
	must(t, os.WriteFile(filepath.Join(a, "f"), nil, 0o600))
	d := x.lookup(a)
	var err error
	d.stamp, err = d.held.Stamp()
	must(t, err)
	d.read = d.stamp.Change
	must(t, x.sync(root, nil, false))
	if n := len(x.lookup(a).entries); n != 1 {
		t.Errorf("%d entries are known", n)
	}
	x.close()
}

// TestRulesWrittenTo writes to an ignore file, which does not change the directory's times. The new rules must
// apply.
func TestRulesWrittenTo(t *testing.T) {
	x, _, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a")
	rules := filepath.Join(root, "a/.ignore")
	must(t, os.WriteFile(filepath.Join(root, "a/f"), nil, 0o600))
	must(t, os.WriteFile(rules, []byte("x\n"), 0o600))
	time.Sleep(2 * time.Duration(freshness.LocalSlack)) // wait, because a young directory would be listed again in any case
	must(t, x.sync(root, nil, false))
	known := func() bool {
		d := x.lookup(filepath.Join(root, "a"))
		i, there := d.find("f")
		return there && d.entries[i].file != nil
	}
	if !known() || x.lookup(filepath.Join(root, "a")).ruleStamps[".ignore"].Size != 2 {
		t.Fatal("the file is not known")
	}
	for rule, want := range map[string]bool{"f\n": false, "g\n": true} {
		must(t, os.WriteFile(rules, []byte(rule), 0o600))
		if must(t, x.sync(root, nil, false)); known() != want {
			t.Errorf("with the rule %q the file is known: %t", rule, !want)
		}
	}
	x.close()
}

// TestPartsOfADirectory changes the first and the last file of each part of a large directory. All changes must be
// found.
func TestPartsOfADirectory(t *testing.T) {
	root := t.TempDir()
	for i := range partSize + 2 {
		must(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%04d", i)), []byte("x"), 0o600))
	}
	time.Sleep(2 * time.Duration(freshness.LocalSlack)) // wait, because young files are always read again
	handle, err := os.Open(root)                        // #nosec G304 -- a path of the test
	must(t, err)
	s := NewSet(Options{Memory: 1 << 20, Freshness: ByStat})
	defer s.Close()
	x, err := build(handle, root, os.ReadFile, s, new(atomic.Int64), func() {})
	must(t, err)
	for _, i := range []int{0, partSize - 1, partSize, partSize + 1} {
		name := fmt.Sprintf("%04d", i)
		must(t, os.WriteFile(filepath.Join(root, name), []byte("other"), 0o600))
		must(t, x.sync(root, nil, false))
		if at, _ := x.root.find(name); x.root.entries[at].file.stamp.Size != 5 {
			t.Errorf("%s was written to, which is not known", name)
		}
	}
	x.close()
}
