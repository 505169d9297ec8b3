// Package need is for tests that need something of the machine, such as a program or a feature of the kernel. It
// imports nothing but the standard library.
package need

import (
	"os"
	"testing"
)

// Missing skips a test, because the machine does not have what the test needs. In CI, it fails the test instead, so
// that nothing is left out. The argument "why" is the reason.
func Missing(t testing.TB, why any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
