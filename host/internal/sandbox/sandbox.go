// Package sandbox decides how a plugin is confined and starts it that way: which backend
// this machine has, what a plugin may do, and what of that the kernel enforces. The
// confining itself is in package confine, which the launcher runs.
package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"toolhost.dev/host/internal/sandbox/confine"
)

// Backend is a way to confine processes.
type Backend string

// The backends, from the strongest on.
const (
	// Namespaces: a root, a network and processes of its own, and all that Landlock does.
	Namespaces Backend = "ns"
	// Landlock, system call filter and resource limits.
	Landlock Backend = "landlock"
	// None: the checks of the host and of the SDK only.
	None Backend = "none"
)

// Kernel is what this machine can enforce on a process of this user.
type Kernel struct {
	// Launcher is the path of the program that confines; empty: see NoLauncher.
	Launcher   string `json:"launcher,omitempty"`
	NoLauncher string `json:"no_launcher,omitempty"`
	// ABI is the version of Landlock; 0: there is none.
	ABI int `json:"landlock_abi"`
	// Seccomp: there are system call filters.
	Seccomp bool `json:"seccomp"`
	// Namespaces: the whole stack was run and works; else why not.
	Namespaces   bool   `json:"namespaces"`
	NoNamespaces string `json:"no_namespaces,omitempty"`
	// NoCgroup says why there is no cgroup to limit processes together by; empty: there is.
	NoCgroup string `json:"no_cgroup,omitempty"`
}

// Choose gives the backend to use where the operator wants one; "auto" wants the best. The
// error says why it is another than the wanted one.
func (k *Kernel) Choose(want string) (Backend, error) {
	switch {
	case want == string(None):
		return None, nil
	case k.Launcher == "":
		return None, errors.New(k.NoLauncher)
	case k.Namespaces && want != string(Landlock):
		return Namespaces, nil
	case k.ABI > 0 && k.Seccomp && want == string(Namespaces):
		return Landlock, fmt.Errorf("there are no namespaces: %s", k.NoNamespaces)
	case k.ABI > 0 && k.Seccomp:
		return Landlock, nil
	case !k.Seccomp:
		return None, errors.New("there is no filter of system calls for this system")
	}
	return None, errors.New("the kernel has no Landlock: it needs Linux 5.13 or later, with landlock in lsm=")
}

// launchTimeout bounds the launcher's work, which takes a few milliseconds.
const launchTimeout = 10 * time.Second

// Wrap has the command run under the policy: its launcher confines itself and then
// executes what the command would have. Call it last before cmd.Start, and the function
// it gives with what Start gave: it waits until the command itself runs, or says why it
// does not; then the process is to be waited for. An error that is a [syscall.Errno] is
// that of executing the command. Where the policy has a ProxyPort, the function gives the
// listener for it, too.
func Wrap(cmd *exec.Cmd, launcher string, backend Backend, p confine.Policy) (running func(error) (net.Listener, error), err error) {
	status, theirs, err := statusPipe(p.ProxyPort > 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make pipes: %w", err)
	}
	p.Exec = cmd.Path
	p.Namespaces = backend == Namespaces
	// What starts processes must not leave any behind. Without Landlock a process of the
	// same user, seen in /proc, would also be a way out of the root.
	p.PrivateProcesses = p.Namespaces && (p.StartProcesses || p.ABI == 0)
	p.StatusFD = 3 + len(cmd.ExtraFiles)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, errors.Join(err, status.Close(), theirs.Close())
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	cmd.Args = append([]string{"toolhost-sandbox", string(text)}, cmd.Args[1:]...)
	cmd.Path = launcher
	isolate(cmd, &p)
	return func(start error) (net.Listener, error) {
		defer func() { _ = status.Close() }()
		_ = theirs.Close()
		if start != nil {
			return nil, fmt.Errorf("the sandbox cannot be set up: %s cannot be started: %w. See toolhost doctor", launcher, start)
		}
		if p.ProxyPort == 0 {
			return nil, failure(status)
		}
		l, passed := receiveListener(status)
		if err := failure(status); err != nil {
			if l != nil {
				_ = l.Close()
			}
			return nil, err
		}
		if passed != nil {
			return nil, fmt.Errorf("the sandbox has no proxy: %w. See toolhost doctor", passed)
		}
		return l, nil
	}, nil
}

// failure reads what the launcher tells; nothing: it has become the plugin.
func failure(status *os.File) error {
	_ = status.SetReadDeadline(time.Now().Add(launchTimeout))
	b, err := io.ReadAll(io.LimitReader(status, 64<<10))
	b = bytes.TrimSpace(b)
	switch {
	case err != nil:
		return fmt.Errorf("the sandbox was not set up within %s: %w", launchTimeout, err)
	case len(b) == 0:
		return nil
	}
	var f confine.Failure
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("the sandbox cannot be set up: its launcher says %q", b)
	}
	if f.Step == confine.StepExec {
		return syscall.Errno(f.Errno)
	}
	return fmt.Errorf("the sandbox cannot be set up, at the step %s: %s. See toolhost doctor; sandbox { enforce = \"off\" } in the configuration does without", f.Step, f.Message)
}
