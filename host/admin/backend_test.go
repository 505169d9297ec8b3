package admin_test

import (
	"os/exec"
	"testing"
)

// TestBackendIsOneFile builds the program with a single additional file that contains a backend. All lists of backends
// must then contain this backend.
func TestBackendIsOneFile(t *testing.T) {
	out, err := exec.Command("go", "test", "-count=1", "-tags", "fakebackend", "-run", "^TestFakeBackend$", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
