package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/confine/seccomp"
	"toolhost.dev/sandbox/execgate"
)

// Probe determines which restrictions this machine can enforce. To test namespaces, it runs the launcher, but only once
// for each boot and each version of the launcher. It stores the outcome in the directory cache. If cache is empty, the
// outcome is not stored.
func Probe(launcher, cache string) Kernel {
	k := Kernel{ABI: confine.LandlockABI(), Seccomp: seccomp.Known && hasSeccomp()}
	st, err := os.Stat(launcher)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0 {
		k.NoLauncher = fmt.Sprintf("the launcher %s is missing", launcher)
		return k
	}
	k.Launcher = launcher
	if !k.Seccomp {
		k.NoNamespaces = "namespaces need a filter of system calls"
		return k
	}
	if err := hasOpenat2(); err != nil {
		k.NoNamespaces = err.Error()
		return k
	}
	key := bootKey(launcher, st)
	file := filepath.Join(cache, "sandbox.probed")
	if kept, err := os.ReadFile(file); cache != "" && err == nil && string(kept) == key {
		k.Namespaces = true
		return k
	}
	// Store only a complete success. After a failure, the next host tries again, because a try is cheap and can succeed
	// later.
	gate := try(Namespaces{}, launcher, k.ABI, true)
	err = gate
	if gate != nil {
		err = try(Namespaces{}, launcher, k.ABI, false)
	}
	if err == nil {
		k.Namespaces = true
		k.noGate(Namespaces{}, gate)
	} else {
		k.NoNamespaces = err.Error()
	}
	if k.ABI > 0 {
		k.noGate(Landlock{}, try(Landlock{}, launcher, k.ABI, true))
	}
	if cache != "" && k.Namespaces && len(k.NoGate) == 0 {
		_ = durable.ReplaceUnsynced(file, []byte(key)) // ignore the error: the next host then probes again
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

// hasOpenat2 returns an error if the system call openat2 is missing. The sandbox needs it to open paths without
// following symbolic links.
func hasOpenat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return fmt.Errorf("the system call openat2 is not possible: %w. Linux 5.6 has it; RestrictSUIDSGID=yes in a unit of systemd forbids it", err)
	}
	return unix.Close(fd)
}

// bootKey returns a text that identifies all conditions on which the outcome of a probe depends.
func bootKey(launcher string, st os.FileInfo) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	user, _ := os.Readlink("/proc/self/ns/user")
	return fmt.Sprintf("%s %s %d %s %d %d", strings.TrimSpace(string(boot)), user, os.Getuid(), launcher, st.Size(),
		st.ModTime().UnixNano())
}

// noGate records why the exec gate does not work under a backend. It does nothing if why is nil.
func (k *Kernel) noGate(b Backend, why error) {
	if why == nil {
		return
	}
	if k.NoGate == nil {
		k.NoGate = make(map[string]string)
	}
	k.NoGate[b.Name()] = why.Error()
}

// try runs the launcher under a backend without a plugin. If the argument "gate" is true, the launcher also executes
// itself, so that the gate can be tested. An error means that the backend or the gate cannot be used.
func try(b Backend, launcher string, abi int, gate bool) error {
	cmd := exec.Command(confine.ProbeArg, launcher) //nolint:gosec // a word for the launcher, not a program
	cmd.Path, cmd.Err = confine.ProbeArg, nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{}
	running, err := b.Wrap(cmd, launcher, confine.Policy{
		Read: []string{"/proc", filepath.Dir(launcher)}, Run: []string{launcher}, Scratch: []string{"/tmp"},
		StartProcesses: true, ABI: abi, Gate: gate,
	})
	if err != nil {
		return err
	}
	seen := make(probed, 1)
	_, err = running(cmd.Start(), func(listener *os.File) {
		new(execgate.Gate).Serve(listener, execgate.Options{Judge: seen})
	})
	if cmd.Process == nil {
		return err
	}
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	if errno := syscall.Errno(0); gate && errors.As(err, &errno) {
		return fmt.Errorf("the programs that plugins execute cannot be inspected: %w. Set the sysctl kernel.yama.ptrace_scope to 0 or 1, or permit ptrace in the profile of the container", errno)
	}
	if err == nil && gate {
		err = seen.check(launcher)
	}
	return err
}

// probed receives the executions that the gate of a probe judges.
type probed chan execgate.Execution

func (p probed) Judge(e *execgate.Execution) execgate.Verdict {
	select {
	case p <- *e:
	default:
	}
	return execgate.Verdict{Effect: execgate.Allow}
}

func (p probed) Ask(_ context.Context, _ *execgate.Execution, v execgate.Verdict) execgate.Verdict {
	return v
}

// check returns an error if the gate did not see the execution of the launcher.
func (p probed) check(launcher string) error {
	var st unix.Stat_t
	if err := unix.Stat(launcher, &st); err != nil {
		return err
	}
	select {
	case e := <-p:
		if e.Device == st.Dev && e.Inode == st.Ino && slices.Equal(e.Argv, []string{launcher, confine.ProbedArg}) {
			return nil
		}
		return fmt.Errorf("a process of a plugin executed %s, but the host saw %s", launcher, e.Path)
	default:
		return errors.New("the host does not see which programs the processes of plugins execute")
	}
}
