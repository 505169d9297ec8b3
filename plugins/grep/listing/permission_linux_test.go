package listing

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/walk"
)

// TestNotPermitted lists a tree with a directory whose permissions allow reading names but not metadata. The listing
// must not contain sizes or times of its entries.
func TestNotPermitted(t *testing.T) {
	s := start(t, "names/file")
	dir := filepath.Join(s.Path, "names")
	must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o777))
	must(t, os.Chmod(s.Path, 0o755))
	must(t, os.Chmod(dir, 0o444))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if os.Geteuid() == 0 { // from here, this thread accesses files as another user
		runtime.LockOSThread()
		must(t, unix.Setfsuid(65534))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	var skipped walk.Skipped
	l, err := Tree(t.Context(), s, walk.Options{}, Options{Limit: 10}, &skipped)
	must(t, err)
	var lines []string
	for _, e := range l.Entries {
		lines = append(lines, e.Line())
	}
	if want := []string{"names/", "names/dir/", "names/file  (size and time not known)"}; !slices.Equal(lines, want) || l.Total != 3 {
		t.Errorf("%q of %d, want %q", lines, l.Total, want)
	}
}
