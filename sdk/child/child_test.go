package child

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGroup checks that all processes in the group of a command end when the command ends or is killed.
func TestGroup(t *testing.T) {
	for name, tail := range map[string]string{"ends": "", "is killed": "; wait"} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := exec.Command("sh", "-c", "exec 3>&1; sleep 1000 3>&- >/dev/null & echo started"+tail)
			cmd.Stdout, cmd.WaitDelay = &out, 10*time.Second
			p, err := Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if tail != "" {
				p.Kill()
			}
			<-p.Exited()
			if tail == "" && (p.Err() != nil || !strings.Contains(out.String(), "started")) {
				t.Errorf("%q, %v", out.String(), p.Err())
			}
			for range 200 { // wait until the killed processes are reaped
				if syscall.Kill(-cmd.Process.Pid, 0) == syscall.ESRCH {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Error("a process of the group is left")
		})
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(exec.Command("/nowhere/program")); err == nil {
		t.Error("it started")
	}
}
