package admin_test

import (
	"os/exec"
	"testing"
)

// TestBackendIsOneFile builds the program with a backend that one file adds, and checks that it appears wherever backends do.
func TestBackendIsOneFile(t *testing.T) {
	out, err := exec.Command("go", "test", "-count=1", "-tags", "fakebackend", "-run", "^TestFakeBackend$", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
