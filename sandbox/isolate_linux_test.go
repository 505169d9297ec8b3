package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sdk/tooltest/need"
)

// TestStartCopiesNoMemory checks that a start in new namespaces does not make this process copy the memory that it
// writes afterwards.
func TestStartCopiesNoMemory(t *testing.T) {
	launcher, _ := build(t)
	kernel := Probe(launcher, "")
	if err := (Namespaces{}).Unusable(&kernel); err != nil {
		need.Missing(t, err)
	}
	page := os.Getpagesize()
	memory := make([]byte, 64<<20)
	faults := func() int64 {
		var before, after unix.Rusage
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
		for i := 0; i < len(memory); i += page {
			memory[i]++
		}
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
		return after.Minflt - before.Minflt
	}
	faults() // the kernel maps the pages
	cmd := exec.Command("/bin/true")
	running, err := (Namespaces{}).Wrap(cmd, launcher, confine.Policy{Run: system, Read: systemFiles, Devices: devices, ABI: kernel.ABI})
	must(t, err)
	_, err = running(cmd.Start(), nil)
	must(t, err)
	if copied, all := faults(), int64(len(memory)/page); copied > all/4 {
		t.Errorf("the kernel copied %d of %d pages after the start", copied, all)
	}
	must(t, cmd.Wait())
}

// TestLauncherWithoutHost checks that a launcher ends if its host ends before it has mapped the ids.
func TestLauncherWithoutHost(t *testing.T) {
	launcher, _ := build(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	for _, args := range [][]string{
		{`{"exec":"/bin/true","unmapped":true,"status_fd":3}`},
		{confine.HoldArg, `{"socket":3,"unmapped":true}`},
	} {
		cmd := exec.Command(launcher, args...)
		cmd.ExtraFiles = []*os.File{theirs}
		must(t, cmd.Start())
		defer func() {
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() < 1 {
				t.Errorf("the launcher ended with %v", err)
			}
		}()
	}
	must(t, theirs.Close())
	must(t, ours.Close())
}

// TestMapIDsError checks the error for a user namespace in which this process can map no ids.
func TestMapIDsError(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60") // in the user namespace of this process, which has its ids already
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	err := mapPlugin(cmd.Process.Pid, nil)
	if !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "the ids of its user namespace cannot be mapped") {
		t.Errorf("the error is %v", err)
	}
}
