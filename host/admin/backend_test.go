package admin_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestBackendIsOneFile checks that a new backend needs only one file. It builds the program with an additional file
// that contains a backend. All lists of backends must then contain this backend.
func TestBackendIsOneFile(t *testing.T) {
	c := exec.Command("go", "test", "-count=1", "-vet=off", "-tags", "fakebackend", "-run", "^TestFakeBackend$", ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0") // as the programs that the build compiled
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
