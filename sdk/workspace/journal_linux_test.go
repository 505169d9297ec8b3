package workspace_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/workspace"
)

func init() { children["halfway"] = halfway }

// halfway writes a file with several hard links in place. The kernel kills the process during the write, because the
// file exceeds a size limit.
func halfway(w *workspace.Workspace, dir string) {
	// Restore the default action of the signal, which kills the process. Go's runtime ignores the signal.
	var dfl [4]uintptr
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(unix.SIGXFSZ), uintptr(unsafe.Pointer(&dfl)), 0, 8, 0, 0)
	p, err := w.Resolve(dir, "linked")
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(len(version(7)) + 100), Max: 1 << 30})
	}
	if err == nil {
		_, err = w.WriteFile(context.Background(), p, version(149), workspace.WriteOptions{})
	}
	fmt.Println("not killed", errno, err)
	os.Exit(3)
}

// TestKilledHalfway kills a process that writes a file with several hard links in place. The next process must restore
// the old content.
func TestKilledHalfway(t *testing.T) {
	dir := killTree(t)
	cmd := startChild(t, dir+"|halfway")
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == 3 {
		t.Fatalf("the child was not killed: %v", err)
	}
	if torn, _ := os.ReadFile(dir + "/w/linked"); whole(torn) {
		t.Error("the file is whole before anything was done about it")
	}
	afterKill(t, dir)
}
