package branch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/branch/checkpoint"
)

// TestReflinks makes copies, checkpoints, applies and reverts on file systems on which files can share their data. On
// such a file system, a copy must be complete, and neither the copy nor its checkpoints may need space for shared data.
// The test needs root to mount the disks, so only "make soak-reflinks" runs it.
func TestReflinks(t *testing.T) {
	if os.Getenv("TOOLHOST_REFLINKS") == "" {
		t.Skip("make soak-reflinks runs this")
	}
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := diskOf(t, kind)
			base := filepath.Join(dir, "ws")
			files(t, base, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".gitignore": "out\n", "out/built": "b", "a": "1\n", "d/b": "2\n"})
			const size = 40 << 20
			large := make([]byte, size)
			_, _ = rand.Read(large) // never fails
			mustBranch(t, os.WriteFile(filepath.Join(base, "large"), large, 0o644))
			free := func() int64 {
				t.Helper()
				d, err := os.Open(dir)
				mustBranch(t, err)
				defer d.Close()
				var st unix.Statfs_t
				mustBranch(t, errors.Join(unix.Syncfs(int(d.Fd())), unix.Fstatfs(int(d.Fd()), &st)))
				return int64(st.Bavail) * st.Bsize
			}
			before := free()
			s := &Store{Dir: filepath.Join(dir, "branches")}
			b, err := s.Make("", base, "b", Backend{Copy: true, MaxBytes: 1 << 20}) // the limit must not count shared data
			mustBranch(t, err)
			if !b.Copy.Shared || b.Copy.Skipped > 0 {
				t.Errorf("the copy is %+v", b.Copy)
			}
			old := snapshot(t, base)
			differ(t, "the copy", snapshot(t, b.Tree()), old)
			shell(t, b.Tree(), "echo x >> large; echo built > out/built; rm d/b; echo new > new")
			mustBranch(t, s.Before(b, "s", "one", "", CheckpointRules{}))
			shell(t, b.Tree(), "echo y >> large; echo more > a")
			mustBranch(t, s.Before(b, "s", "two", "", CheckpointRules{}))
			if used := before - free(); used > size/2 {
				t.Errorf("a copy and two checkpoints of %d bytes need %d bytes", size, used)
			}
			want := snapshot(t, b.Tree())
			_, err = s.Apply(b, Selection{})
			mustBranch(t, err)
			differ(t, "applied", snapshot(t, base), want)
			_, err = s.Revert(b)
			mustBranch(t, err)
			differ(t, "reverted", snapshot(t, base), old)

			// Repeat the test with an overlay on the same disk.
			o, at := overlaidIn(t, dir, base)
			shell(t, at, "echo z >> large; echo q > d/b")
			began := free()
			state := snapshot(t, at)
			_, err = o.checkpoint(Checkpoint{Call: "c"}, CheckpointRules{})
			mustBranch(t, err)
			if used := began - free(); used > size/4 {
				t.Errorf("a checkpoint of %d bytes needs %d bytes", size, used)
			}
			shell(t, at, "echo other > large; rm -r d")
			mustBranch(t, o.saves().Rewrite(at, &checkpoint.Restore{Number: 1}))
			differ(t, "undone", snapshot(t, at), state)
		})
	}
}

// diskOf mounts a new file system of the given kind, which is stored in a file, and returns its directory.
func diskOf(t *testing.T, kind string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		t.Fatalf("a disk with %s needs mkfs.%[1]s: %v", kind, err)
	}
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	mustBranch(t, errors.Join(err, f.Truncate(400<<20), f.Close()))
	if out, err := exec.Command("mkfs."+kind, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("only root can mount a disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return dir
}

// TestRequestedCheckpointsAreOnDisk checks that a checkpoint that a person requested, and a restore, are on the disk
// when the command ends. An automatic checkpoint is not synced. The test finds it in memory only, so it would notice a
// missing sync.
func TestRequestedCheckpointsAreOnDisk(t *testing.T) {
	s, b, _, _ := begun(t)
	dirty := func(path string) uint64 {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var out unix.Cachestat_t
		if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &out, 0); err != nil {
			need.Missing(t, fmt.Sprintf("the kernel does not tell which pages are on disk: %v", err))
		}
		return out.Dirty + out.Writeback
	}
	objects := func() (n uint64) {
		t.Helper()
		paths := objectsOf(t, b)
		if len(paths) == 0 {
			t.Fatal("nothing is stored")
		}
		for _, path := range paths {
			n += dirty(path)
		}
		return n
	}
	if err := s.Before(b, "s", "call", "", CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	if objects() == 0 {
		need.Missing(t, "the file system of the test writes files to the disk at once, or has none")
	}
	files(t, b.Layer(), map[string]string{"more": "m"})
	if _, err := s.Checkpoint(b, "requested", CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	if n := objects(); n > 0 {
		t.Errorf("%d pages of a requested checkpoint are not on disk", n)
	}
	files(t, b.Layer(), map[string]string{"edit": "later"})
	if _, err := s.Restore(b, 2, CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	if n := objects() + dirty(filepath.Join(b.Layer(), "edit")); n > 0 {
		t.Errorf("%d pages are not on disk after a restore", n)
	}
}
