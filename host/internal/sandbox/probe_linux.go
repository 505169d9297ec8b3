package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/sandbox/confine"
)

// Probe determines what this machine can enforce. To test namespaces, it must run the launcher. It does so once for each
// boot and launcher, and stores the outcome in the directory cache. An empty cache means that the outcome is not stored.
func Probe(launcher, cache string) Kernel {
	k := Kernel{ABI: confine.LandlockABI(), Seccomp: confine.SeccompKnown && hasSeccomp()}
	st, err := os.Stat(launcher)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0 {
		k.NoLauncher = fmt.Sprintf("the launcher %s is missing; install it beside toolhost (make build)", launcher)
		return k
	}
	k.Launcher = launcher
	if !k.Seccomp {
		k.NoNamespaces = "namespaces need a filter of system calls"
		return k
	}
	key := bootKey(launcher, st)
	file := filepath.Join(cache, "sandbox.probed")
	if kept, err := os.ReadFile(file); cache != "" && err == nil && string(kept) == key {
		k.Namespaces = true
		return k
	}
	if err := tryNamespaces(launcher, k.ABI); err != nil {
		k.NoNamespaces = err.Error()
		return k // the next host tries again: a try is cheap, and it can succeed later
	}
	k.Namespaces = true
	if cache != "" {
		_ = replace(file, []byte(key)) // the next host probes again if this fails
	}
	return k
}

// Forget removes the outcome that Probe stored in cache.
func Forget(cache string) {
	if cache != "" {
		_ = os.Remove(filepath.Join(cache, "sandbox.probed"))
	}
}

// hasSeccomp reports whether system call filters can return errors.
func hasSeccomp() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}

// bootKey identifies everything that the outcome of a probe depends on.
func bootKey(launcher string, st os.FileInfo) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	user, _ := os.Readlink("/proc/self/ns/user")
	return fmt.Sprintf("%s %s %d %s %d %d", strings.TrimSpace(string(boot)), user, os.Getuid(), launcher, st.Size(), st.ModTime().UnixNano())
}

// tryNamespaces runs the launcher with all namespaces, but without a plugin. An error means that namespaces cannot be
// used.
func tryNamespaces(launcher string, abi int) error {
	cmd := exec.Command(confine.ProbeArg) //nolint:gosec // a word for the launcher, not a program
	cmd.Path, cmd.Err = confine.ProbeArg, nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{}
	running, err := Namespaces{}.Wrap(cmd, launcher, confine.Policy{
		Read: []string{"/proc", filepath.Dir(launcher)}, Scratch: []string{"/tmp"}, StartProcesses: true, ABI: abi,
	})
	if err != nil {
		return err
	}
	_, err = running(cmd.Start())
	if cmd.Process == nil {
		return err
	}
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	return err
}

// replace writes a file atomically.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".sandbox")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
