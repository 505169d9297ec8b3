package tooltest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// namespaceEnv says that a test runs in a user namespace already.
const namespaceEnv = "TOOLTEST_NAMESPACE"

// InUserNamespace runs the test that calls it once more, in a process of its own where an ordinary user
// may mount: in new user and mount namespaces. A test calls it, and ends, when a mount was
// refused; why is that error. The test fails if it fails there, and is skipped only where
// the kernel has no such place. It is for Linux.
func InUserNamespace(t *testing.T, why error) {
	t.Helper()
	if os.Getenv(namespaceEnv) != "" {
		t.Skipf("mounting is refused in a user namespace too: %v", why)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range strings.SplitSeq(t.Name(), "/") {
		names = append(names, "^"+name+"$")
	}
	cmd := exec.Command(self, "-test.v", "-test.run="+strings.Join(names, "/")) //nolint:gosec // the program itself
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch ended := (*exec.ExitError)(nil); {
	case err != nil && !errors.As(err, &ended):
		t.Skipf("mounting is not permitted (%v), and the kernel refuses a user namespace: %v", why, err)
	case err != nil:
		t.Errorf("in a user namespace:\n%s", out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Skipf("%s", out)
	}
}
