// Package sandbox confines commands by the kernel of Linux. [Start] starts one, and needs a call of [Init] in the
// program.
//
// A program that needs more does these steps itself: [Probe] tests what the machine can enforce, [Kernel.Choose]
// selects a backend, [Profile.Policy] makes a policy of what is permitted, and [Backend.Wrap] makes a command start
// under it. Package confine, which the launcher runs, makes the system calls.
//
// In this module, the host is the program that starts a confined command, and the plugin is the program that it
// confines.
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
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sandbox/confine"
)

// Kernel describes the restrictions that this machine can enforce on a process of this user.
type Kernel struct {
	// Launcher is the path of the program that confines plugins. If Launcher is empty, NoLauncher contains the reason.
	Launcher   string `json:"launcher,omitempty"`
	NoLauncher string `json:"no_launcher,omitempty"`
	// ABI is the version of Landlock. Zero means that the kernel does not support Landlock.
	ABI int `json:"landlock_abi"`
	// Seccomp reports whether the kernel supports system call filters.
	Seccomp bool `json:"seccomp"`
	// Namespaces reports whether plugins can run in separate namespaces. A test run of the launcher determines the
	// value. If Namespaces is false, NoNamespaces contains the reason.
	Namespaces   bool   `json:"namespaces"`
	NoNamespaces string `json:"no_namespaces,omitempty"`
	// NoGate maps the names of backends without an exec gate to the reason. A test run of the launcher determines the
	// values.
	NoGate map[string]string `json:"no_exec_gate,omitempty"`
	// NoCgroup is the reason why no cgroup can limit all processes of a plugin together. Empty means that a cgroup is
	// available.
	NoCgroup string `json:"no_cgroup,omitempty"`
	// NoPids is the reason why no cgroup limits the number of processes of root. Other limits do not apply to root.
	// Empty means that the cgroup is available or not needed.
	NoPids string `json:"no_pids,omitempty"`
}

// launchTimeout bounds the launcher's work, which takes a few milliseconds.
const launchTimeout = 10 * time.Second

// Wrap makes a command start under a policy. The launcher confines itself and then executes the command. Call Wrap
// immediately before cmd.Start, and the returned function after cmd.Start. The returned function waits until the
// command runs, or returns the reason why it failed to start. Then the caller must wait for the process. A
// [syscall.Errno] as error means that executing the command failed.
func Wrap(cmd *exec.Cmd, launcher string, p confine.Policy) (Running, error) {
	status, theirs, err := statusPipe(p.ProxyPort > 0 || p.Gate || p.Namespaces)
	if err != nil {
		return nil, fmt.Errorf("cannot make pipes: %w", err)
	}
	p.Exec = cmd.Path
	p.StatusFD = 3 + len(cmd.ExtraFiles)
	pass := []*os.File{theirs}
	if len(p.Masks) > 0 || p.Execute != nil {
		lists, err := unlinked(p.Lists)
		if err != nil {
			return nil, errors.Join(err, status.Close(), theirs.Close())
		}
		p.ListsFD = p.StatusFD + 1
		pass = append(pass, lists)
	}
	for i := range p.Branches {
		p.Branches[i].FD = p.StatusFD + len(pass)
		pass = append(pass, p.Mounts[i])
	}
	isolate(cmd, &p)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, errors.Join(err, status.Close(), closeAll(pass))
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, pass...)
	cmd.Args = append([]string{launcherName, string(text)}, cmd.Args[1:]...)
	cmd.Path = launcher
	return func(start error, gate func(listener *os.File)) (net.Listener, error) {
		defer func() { _ = status.Close() }()
		_ = closeAll(pass)
		if start != nil {
			return nil, &SetupError{Cause: fmt.Errorf("%s cannot be started: %w", launcher, start)}
		}
		if p.Unmapped {
			if err := mapPlugin(cmd.Process.Pid, status); err != nil {
				return nil, &SetupError{Cause: err}
			}
		}
		return settle(status, &p, gate)
	}, nil
}

// SetupError reports that a sandbox could not be set up, so that its program did not start.
type SetupError struct {
	// Step is the step of the launcher that failed. Empty means that the launcher itself failed.
	Step  string
	Cause error
}

func (e *SetupError) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("the sandbox cannot be set up: %v", e.Cause)
	}
	return fmt.Sprintf("the sandbox cannot be set up; the step %s failed: %v", e.Step, e.Cause)
}

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Cause }

// ErrGated means that an exec gate cannot be installed, because a filter around this process already judges programs.
// Linux permits only one such filter.
var ErrGated = errors.New("a filter around this process already judges programs, and Linux permits only one such filter")

// settle receives the descriptors that the launcher passes, and waits until the launcher executes the plugin.
func settle(status *os.File, p *confine.Policy, gate func(listener *os.File)) (net.Listener, error) {
	var l net.Listener
	var passed error
	if p.ProxyPort > 0 {
		l, passed = receiveListener(status)
	}
	if p.Gate && passed == nil {
		var f *os.File
		if f, passed = receive(status, "exec gate"); passed == nil {
			gate(f) // after this call, the gate can judge the execution of the plugin
		}
	}
	err := failure(status)
	if err == nil && passed != nil {
		err = &SetupError{Cause: passed}
	}
	if err != nil && l != nil {
		_ = l.Close()
		l = nil
	}
	return l, err
}

// unlinked returns an unnamed file that contains a value as JSON. The launcher reads long lists from
// such a file, because a command line is too short for thousands of masks.
func unlinked(value any) (*os.File, error) {
	f, err := os.CreateTemp("", ".toolhost-")
	if err != nil {
		return nil, fmt.Errorf("a temporary file cannot be created: %w", err)
	}
	err = errors.Join(os.Remove(f.Name()), json.NewEncoder(f).Encode(value))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// failure returns the launcher's report of a failure. It returns nil if the launcher has executed the plugin.
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
		return &SetupError{Cause: fmt.Errorf("its launcher printed %q", b)}
	}
	if f.Step == confine.StepExec {
		return syscall.Errno(f.Errno)
	}
	if f.Step == confine.StepGate && strings.Contains(f.Message, syscall.EBUSY.Error()) {
		return ErrGated
	}
	return &SetupError{Step: f.Step, Cause: errors.New(f.Message)}
}
