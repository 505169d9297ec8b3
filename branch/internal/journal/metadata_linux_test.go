package journal

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// TestMetadataFollowsNoLink sets the mode of a directory, as an apply does, while another goroutine repeatedly
// exchanges the directory with a link. The directory behind the link must stay unchanged.
func TestMetadataFollowsNoLink(t *testing.T) {
	base, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	dir, link := filepath.Join(base, "dir"), filepath.Join(base, "link")
	for _, err := range []error{os.Mkdir(outside, 0o700), os.Mkdir(dir, 0o700), os.Symlink(outside, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tree, err := filetree.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	x := &Exchange{base: tree}
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = filetree.ExchangePaths(dir, link)
			}
		}
	})
	set, owner := 0, [2]uint32{uint32(os.Getuid()), uint32(os.Getgid())}
	for range 20_000 {
		if x.metadata("dir", 0o777, owner, map[string][]byte{"user.set": nil}, nil) == nil {
			set++
		}
	}
	close(stop)
	swaps.Wait()
	var st unix.Stat_t
	if err := unix.Lstat(outside, &st); err != nil || st.Mode&0o777 != 0o700 {
		t.Errorf("the directory outside has the mode %o (%v), want 700", st.Mode&0o777, err)
	}
	if set == 0 {
		t.Error("no call set a mode, so the test showed nothing")
	}
}
