package manifest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRecognize checks that the host recognizes a program by its directory, or by its content if the host has a table.
// The label of the plugin must have no influence.
func TestRecognize(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const declared = `{"name": "bash", "version": "1.0.0", "binary": "bash", "bundled": {"profile": {"exec": true}}}`
	write(filepath.Join(dir, "bash"), "shell")
	write(filepath.Join(dir, "bash.json"), declared)
	write(filepath.Join(dir, "bare"), "no manifest")
	write(filepath.Join(other, "bash"), "other")
	write(filepath.Join(other, "bash.json"), declared)
	write(filepath.Join(other, "copy"), "shell")
	write(filepath.Join(other, "same-size"), "SHELL")
	link, linked := filepath.Join(other, "link"), filepath.Join(t.TempDir(), "plugins")
	for from, to := range map[string]string{link: filepath.Join(dir, "bash"), linked: dir} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	table = ""
	check := func(dir, path, want string) {
		t.Helper()
		name, b, err := OpenDirectory(dir).Recognize(path)
		if err != nil || name != want || b.Profile.Exec != (want == "bash") {
			t.Errorf("%s in %s: %q, %+v, %v", path, dir, name, b, err)
		}
	}
	both := func(copied string) {
		t.Helper()
		check(dir, filepath.Join(dir, "bash"), "bash")
		check(dir, link, "bash")
		check(linked, filepath.Join(dir, "bash"), "bash")
		check(dir, filepath.Join(linked, "bash"), "bash")
		check(dir, filepath.Join(dir, "bare"), "")
		check(dir, filepath.Join(dir, "..", "bash"), "")
		check(dir, filepath.Join(other, "bash"), "")
		check(dir, filepath.Join(other, "same-size"), "")
		check(dir, filepath.Join(other, "none"), "")
		check("", filepath.Join(dir, "bash"), "")
		check(dir, filepath.Join(other, "copy"), copied)
	}
	both("")
	right, wrong := sha256.Sum256([]byte("shell")), sha256.Sum256([]byte("SHELL"))
	if !Verify("bash", wrong) {
		t.Error("a host without a table rejects a program")
	}
	table = fmt.Sprintf("ask:3:zz,bash:5:%x", right)
	defer func() { table = "" }()
	both("bash")
	if !Verify("bash", right) || Verify("bash", wrong) || Verify("ask", right) {
		t.Error("the table does not decide")
	}
}
