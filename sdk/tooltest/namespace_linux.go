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

// namespaceEnv is the name of an environment variable. It is set if the test already runs in a user namespace.
const namespaceEnv = "TOOLTEST_NAMESPACE"

// InUserNamespace runs the calling test again in a process with new user and mount namespaces, in which an ordinary
// user can mount. A test calls it after a mount has failed, passes the error as why, and then returns. A failure in
// the new process fails the test. If the kernel refuses user namespaces, the test is skipped. InUserNamespace works
// only on Linux.
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
