package policy_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

func bind(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND, "") }

func unbind(t *testing.T, path string) {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
}
