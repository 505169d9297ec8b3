package dist_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/tools/dist"
)

// TestWheel checks that pip can install the wheel of the Python SDK without a network, and that the tests of the SDK
// pass with it. It also checks that two builds are identical.
func TestWheel(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	wheel, name, err := dist.Wheel("../../sdk/python", at)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := dist.Wheel("../../sdk/python", at)
	if err != nil || !bytes.Equal(wheel, again) {
		t.Errorf("two builds differ: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), wheel, 0o600); err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(dir, "installed")
	pip := exec.Command("/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", dir, "--target", installed, "toolhost-sdk")
	if out, err := pip.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "No module named pip") || os.IsNotExist(err) {
			const missing = "Python has no pip; install python3-pip"
			if os.Getenv("CI") == "true" { // CI must not skip tests
				t.Fatal(missing)
			}
			t.Skip(missing)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(installed, "toolhost_sdk", "py.typed")); err != nil {
		t.Error(err)
	}
	tests, err := filepath.Abs("../../sdk/python/tests")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/usr/bin/python3", "-m", "unittest", "-q", "test_sdk")
	c.Dir, c.Env = tests, append(os.Environ(), "PYTHONPATH="+installed, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
