package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/confine/seccomp"
)

// exitStatus is the exit status of a launcher that failed to start the plugin.
const exitStatus = 126

// timerSlack is the maximum delay with which the kernel can wake a sleeping plugin, in nanoseconds
// (docs/adr/0007-sandbox.md).
const timerSlack = 500_000

func init() {
	// All restrictions apply to the thread that executes the plugin. This must be the first thread, because only the
	// first thread gets the signal when the host dies.
	runtime.LockOSThread()
}

// Main runs the launcher: toolhost-sandbox POLICY [ARGUMENT…]. It does not return.
func Main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox confines a plugin and then executes it; only a host starts it")
		os.Exit(2)
	}
	if os.Args[1] == ProbedArg {
		os.Exit(0)
	}
	if os.Args[1] == HoldArg && len(os.Args) == 3 {
		os.Exit(hold(os.Args[2]))
	}
	var p Policy
	if err := json.Unmarshal([]byte(os.Args[1]), &p); err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox: cannot read the policy:", err)
		os.Exit(2)
	}
	args := os.Args[2:]
	step, err := enter(&p, args)
	failure := Failure{Step: step, Message: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		failure.Errno = int(errno)
	}
	if b, err := json.Marshal(failure); err == nil && p.StatusFD > 2 {
		_, _ = unix.Write(p.StatusFD, b)
	}
	os.Exit(exitStatus)
}

// enter restricts this process and executes the plugin. It returns only if a step fails.
func enter(p *Policy, args []string) (step string, err error) {
	if p.StatusFD > 2 {
		// Close all other descriptors, including descriptors that the host inherited by accident.
		if err := unix.CloseRange(uint(p.StatusFD), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			unix.CloseOnExec(p.StatusFD) // CLOSE_RANGE_CLOEXEC requires Linux 5.11
		}
	}
	if p.Unmapped {
		if err := awaitIDs(p.StatusFD); err != nil {
			return "ids", err
		}
	}
	if err := readLists(p); err != nil {
		return "lists", err
	}
	// Set the parent-death signal again, because a change of credentials can have cleared it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return "parent-death signal", err
	}
	// Move only this thread. The other threads of the launcher end anyway when this thread executes the plugin.
	for _, tasks := range p.Join {
		if err := os.WriteFile(tasks, []byte("0"), 0); err != nil {
			return "cgroup", err
		}
	}
	if p.Namespaces {
		if err := enterRoot(p); err != nil {
			return "namespaces", err
		}
	}
	if p.Dir != "" {
		if err := unix.Chdir(p.Dir); err != nil {
			return "directory", err
		}
	}
	if p.ProxyPort > 0 {
		if err := passListener(p); err != nil {
			return "proxy", err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "no_new_privs", err
	}
	if err := dropCapabilities(); err != nil {
		return "capabilities", err
	}
	if err := landlock(p); err != nil {
		return "landlock", err
	}
	// Ignore the error: without the setting, the plugin is only slower.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0)
	return execute(p, args)
}

// awaitIDs waits until the host has mapped the ids of this user namespace.
func awaitIDs(socket int) error {
	b := make([]byte, 1)
	for {
		n, err := unix.Read(socket, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n != 1 || b[0] != Mapped:
			return errors.New("the host has not mapped the ids of the user namespace")
		}
		return nil
	}
}

// execute applies the last restrictions and executes the plugin. It sets the limits, so it must not allocate much
// memory or open files afterwards.
func execute(p *Policy, args []string) (step string, err error) {
	argv := append([]string{p.Exec}, args...)
	env := os.Environ()
	if err := setLimits(p); err != nil {
		return "limits", err
	}
	if p.Exec == ProbeArg {
		// Prevent other processes of the same user from inspecting the plugin.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return "probe", err
		}
	}
	listener, err := seccomp.Install(seccomp.Rules{
		StartProcesses: p.StartProcesses, ListedPrograms: p.Execute != nil, Gate: p.Gate,
		FixedMetadata: p.FixedMetadata,
		Namespaces:    p.Namespaces, Internet: p.Network || p.OwnNetwork(),
	})
	switch {
	case err != nil && p.Gate:
		return StepGate, err
	case err != nil:
		return "seccomp", err
	}
	if err := passGate(p, listener); err != nil {
		return StepGate, err
	}
	if p.Exec == ProbeArg {
		return probe(p, argv, env)
	}
	return StepExec, unix.Exec(p.Exec, argv, env)
}

// probe exits if the policy has no gate. With a gate, it executes the launcher a second time, so that the host judges
// an execution. The host does not judge the first execution, because it starts the plugin.
func probe(p *Policy, argv, env []string) (step string, err error) {
	if !p.Gate {
		os.Exit(0)
	}
	return StepExec, unix.Exec(argv[1], []string{argv[1], ProbedArg}, env)
}

// passGate sends the filter's listener to the host. Afterwards, the host judges every program that is executed.
func passGate(p *Policy, listener int) error {
	if listener < 0 {
		return nil
	}
	if err := unix.Sendmsg(p.StatusFD, []byte(" "), unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	return unix.Close(listener)
}
