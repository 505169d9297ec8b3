package shell

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain is also a program that gives its parent a child.
func TestMain(m *testing.M) {
	if os.Getenv("SHELL_TEST_SIBLING") != "" {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_PARENT}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestUnknownChild: a shell can have a child that it did not start. It is not lost.
func TestUnknownChild(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	c := plain(t, os.Args[0], &out)
	c.Env = append(c.Env, "SHELL_TEST_SIBLING=1")
	if o, err := r.Start("s", c).Outcome(); err != nil || o.Exit != 0 || len(o.Background) != 1 {
		t.Errorf("%+v %v %q", o, err, out.String())
	}
}
