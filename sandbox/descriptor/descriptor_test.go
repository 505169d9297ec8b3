//go:build unix

package descriptor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/descriptor"
)

// TestOne checks that only a message with exactly one descriptor is accepted, and that no descriptor stays open or is
// inherited otherwise.
func TestOne(t *testing.T) {
	for name, tc := range map[string]struct {
		send int
		want string
	}{"one": {1, ""}, "none": {0, "has 0 descriptors"}, "two": {2, "has 2 descriptors"}} {
		t.Run(name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pair[0])
			defer unix.Close(pair[1])
			path := filepath.Join(t.TempDir(), "passed")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var rights []byte
			if tc.send > 0 {
				fds := make([]int, tc.send)
				for i := range fds {
					fds[i] = int(file.Fd())
				}
				rights = unix.UnixRights(fds...)
			}
			if err := unix.Sendmsg(pair[0], []byte("x"), rights, nil, 0); err != nil {
				t.Fatal(err)
			}
			oob := make([]byte, 2*descriptor.Space)
			_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
			if err != nil {
				t.Fatal(err)
			}
			before := open(t, path)
			f, err := descriptor.One(oob[:n], "passed")
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("the error is %v, want %q", err, tc.want)
				}
				if left := open(t, path); left != before-tc.send {
					t.Errorf("%d of %d descriptors stay open", left, before)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("programs inherit the descriptor: %d, %v", flags, err)
			}
		})
	}
	if _, err := descriptor.One([]byte("garbage"), "passed"); err == nil {
		t.Error("garbage is accepted")
	}
}

// open counts the descriptors of a file.
func open(t *testing.T, path string) (n int) {
	t.Helper()
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil {
		t.Fatal(err)
	}
	for fd := range 1 << 10 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Ino == is.Ino && st.Dev == is.Dev {
			n++
		}
	}
	return n
}
