package listing

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotPermitted checks a directory whose permissions allow reading names but not metadata. The listing must
// contain the names.
func TestNotPermitted(t *testing.T) {
	dir, ws, _ := directory(t)
	must(t, os.Chmod(dir+"/zdir", 0o444)) // #nosec G302 -- for everyone
	must(t, os.Chmod(dir, 0o755))         // #nosec G302 -- for everyone
	zdir, err := ws.Resolve(dir, "zdir")
	must(t, err)
	if os.Geteuid() == 0 { // from here, this thread accesses files as another user
		runtime.LockOSThread()
		must(t, unix.Setfsuid(65534))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	l, err := Read(t.Context(), ws, zdir)
	must(t, err)
	if want := []string{"in/"}; !slices.Equal(l.Lines(), want) {
		t.Errorf("%q, want %q", l.Lines(), want)
	}
}
