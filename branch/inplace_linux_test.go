package branch

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/filetree"
)

// overlaid creates a workspace with the given files, and mounts a new branch of it.
func overlaid(t *testing.T, content map[string]string) (b *Branch, at string) {
	t.Helper()
	base := filepath.Join(t.TempDir(), "ws")
	files(t, base, content)
	return overlaidIn(t, t.TempDir(), base)
}

// overlaidIn mounts a new branch of a workspace. The store of the branch is in the given directory.
func overlaidIn(t *testing.T, dir, base string) (b *Branch, at string) {
	t.Helper()
	s := &Store{Dir: filepath.Join(dir, "overlays")}
	b, err := s.Make("", base, "b", Backend{})
	mustBranch(t, err)
	at = t.TempDir()
	mountAt(t, b, at)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return b, at
}

// mountAt mounts a branch as a host's holder process does.
func mountAt(t *testing.T, b *Branch, at string) {
	t.Helper()
	work := filepath.Join(b.dir, workDir)
	mustBranch(t, errors.Join(filetree.RemoveAll(work), os.Mkdir(work, 0o700)))
	if err := unix.Mount("overlay", at, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr,volatile", b.Base, b.Layer(), work)); err != nil {
		need.Missing(t, fmt.Sprint("only root can mount an overlay: ", err))
	}
}

// TestRestoreThroughTheMount restores random checkpoints of a mounted branch. Each time, the mount must be as at the
// checkpoint, and so must a new mount of the layer at the end.
func TestRestoreThroughTheMount(t *testing.T) {
	for seed := range uint64(8) {
		b, at := overlaid(t, sample)
		take := func(n int) map[string]string {
			shell(t, at, operations(rand.New(rand.NewPCG(seed, uint64(n))), 25))
			_, err := b.checkpoint(Checkpoint{Call: fmt.Sprint(n)}, CheckpointRules{})
			mustBranch(t, err)
			return snapshot(t, at)
		}
		_, err := b.checkpoint(Checkpoint{Call: "0"}, CheckpointRules{})
		mustBranch(t, err)
		states := []map[string]string{nil, snapshot(t, at), take(1), take(2), take(3)}
		for _, n := range []int{3, 2, 4, 1, 4} {
			mustBranch(t, b.saves().Rewrite(at, &checkpoint.Restore{Number: n}))
			differ(t, fmt.Sprintf("seed %d: checkpoint %d through the mount", seed, n), snapshot(t, at), states[n])
			// A directory that was deleted and then restored must not count as a change.
			if changes, err := b.Changes(); n == 1 && (err != nil || len(changes) > 0) {
				t.Errorf("seed %d: after all calls were undone, the branch changes %+v, %v", seed, changes, err)
			}
		}
		mustBranch(t, unix.Unmount(at, 0))
		mountAt(t, b, at)
		differ(t, fmt.Sprintf("seed %d: mounted again", seed), snapshot(t, at), states[4])
	}
}

// TestRestoreIsKilled kills a process at every third step of an undo in a mounted branch. The next process must
// complete the undo.
func TestRestoreIsKilled(t *testing.T) {
	steps := 0
	for done := false; !done; steps++ {
		b, at := overlaid(t, sample)
		s := &Store{Dir: filepath.Dir(b.dir)}
		take := func() map[string]string {
			shell(t, at, operations(rand.New(rand.NewPCG(3, 7)), 12))
			_, err := b.checkpoint(Checkpoint{Call: "c"}, CheckpointRules{})
			mustBranch(t, err)
			return snapshot(t, at)
		}
		first := take()
		last := take()
		t.Setenv("TOOLHOST_TEST_VIEW", at)
		step := 3*steps + 1
		done = !killAtStep(t, s, b.Base, "rewrite", step)
		_, err := os.Lstat(b.saves().RestoreFile())
		begun := done || err == nil
		mustBranch(t, unix.Unmount(at, 0))
		resume(t, s, b)
		mountAt(t, b, at)
		switch now := snapshot(t, at); {
		case begun:
			differ(t, fmt.Sprintf("killed at step %d", step), now, first)
		case !maps.Equal(now, first):
			differ(t, fmt.Sprintf("killed at step %d, before the undo", step), now, last)
		}
	}
	if steps < 8 {
		t.Errorf("the undo was killed only %d times", steps)
	}
}

// TestRestoreFollowsNoLinks restores files in a directory while another goroutine repeatedly exchanges the directory
// with a link. The files behind the link must stay unchanged.
func TestRestoreFollowsNoLinks(t *testing.T) {
	b, at := overlaid(t, map[string]string{"kept": "k"})
	outside := t.TempDir()
	files(t, outside, map[string]string{"a": "outside", "sub/b": "outside"})
	want := snapshot(t, outside)
	dir, link := filepath.Join(at, "dir"), filepath.Join(at, "link")
	files(t, dir, map[string]string{"a": "first", "sub/b": "first"})
	mustBranch(t, os.Symlink(outside, link))
	_, err := b.checkpoint(Checkpoint{Call: "c"}, CheckpointRules{})
	mustBranch(t, err)
	first := &checkpoint.Restore{Number: 1}
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
	for range 300 {
		_ = b.saves().Rewrite(at, first) // ignore the error: the exchanges can make the restore fail
	}
	close(stop)
	swaps.Wait()
	differ(t, "outside of the branch", snapshot(t, outside), want)
	mustBranch(t, b.saves().Rewrite(at, first))
	if text, err := os.ReadFile(filepath.Join(dir, "sub/b")); err != nil || string(text) != "first" {
		t.Errorf("after the program ended, the file is %q, %v", text, err)
	}
}
