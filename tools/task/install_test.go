package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallRefuses checks prefixes and existing files that install and uninstall must refuse before they change
// anything.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(taken, "bin/toolhost"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := t.TempDir()
	if err := os.MkdirAll(filepath.Join(listed, libexec), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(listed, installedList), []byte("bin/toolhost\n../../etc/passwd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  map[string]string
		run  func(*task) error
		want string
	}{
		{map[string]string{"PREFIX": "usr"}, (*task).install, "PREFIX=usr is not absolute"},
		{map[string]string{"PREFIX": taken, "BUILT": "none"}, (*task).install, "exists, and make install did not write it"},
		{map[string]string{"PREFIX": t.TempDir()}, (*task).uninstall, "nothing is installed below"},
		{map[string]string{"PREFIX": listed}, (*task).uninstall, "../../etc/passwd, which is not below the prefix"},
		{map[string]string{"PREFIX": "~/x", "HOME": taken, "DESTDIR": "/stage"}, (*task).uninstall, "nothing is installed below /stage" + taken + "/x"},
	} {
		r, _ := repository(t, tc.env)
		if err := tc.run(r); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.env, err, tc.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(taken, "bin/toolhost")); err != nil || string(b) != "mine" {
		t.Errorf("the other program was changed: %q, %v", b, err)
	}
}
