package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/control"
)

// confinedEnv turns this test program into a client without privileges.
const confinedEnv = "TOOLHOST_TEST_CONFINED_CLIENT"

func init() { runtime.LockOSThread() } // TestMain must run on the main thread

func TestMain(m *testing.M) {
	dir := os.Getenv(confinedEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	var out int
	fmt.Println(control.Sockets(dir)[0].Ask(context.Background(), "any", nil, &out))
	os.Exit(0)
}

func TestConfinedClientsAreRefused(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, func(context.Context, string, json.RawMessage) (any, error) {
		t.Error("it was answered")
		return nil, nil
	})
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), confinedEnv+"="+dir)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "a program in a sandbox cannot control the host") {
		t.Errorf("%v %s", err, out)
	}
}
