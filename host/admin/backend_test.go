package admin_test

import (
	"os/exec"
	"testing"
)

// TestBackendIsOneFile builds the program with an additional backend in a single file. It checks that the backend
// appears in all lists of backends.
func TestBackendIsOneFile(t *testing.T) {
	out, err := exec.Command("go", "test", "-count=1", "-tags", "fakebackend", "-run", "^TestFakeBackend$", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
