package hosttest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestDescendants checks that an orphan in a session of its own is found, with its environment, as long as it runs.
// Tests that check that nothing is left depend on it.
func TestDescendants(t *testing.T) {
	adoptOrphans()
	c := exec.Command("setsid", "-f", "sleep", "86399") // the program setsid ends at once
	c.Env = append(os.Environ(), "DESCENDANT=yes")
	Must(t, c.Run())
	orphan := func() int {
		return slices.IndexFunc(Descendants(), func(p Process) bool {
			return p.Command() == "sleep 86399" && p.HasEnv(func(e string) bool { return e == "DESCENDANT=yes" })
		})
	}
	Wait(t, "the orphan is found", func() bool { return orphan() >= 0 })
	p := Descendants()[orphan()]
	if p.Name() != "sleep" || p.Parent() != os.Getpid() || !strings.HasSuffix(p.Dir(), "/hosttest") {
		t.Errorf("%q, parent %d, in %s", p.Name(), p.Parent(), p.Dir())
	}
	Must(t, syscall.Kill(p.PID, syscall.SIGKILL))
	Wait(t, "the orphan has ended", func() bool { return orphan() < 0 })
}
