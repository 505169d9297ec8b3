package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"toolhost.dev/sandbox/confine"
)

// Namespaces isolates the root file system, the network and the processes of a plugin. It also enforces all
// restrictions of [Landlock].
type Namespaces struct{}

// Name implements [Backend].
func (Namespaces) Name() string { return "ns" }

// Summary implements [Backend].
func (Namespaces) Summary() string { return "namespaces and Landlock" }

// Abilities implements [Backend].
func (Namespaces) Abilities() Abilities {
	return Abilities{
		Confines: true, SingleHosts: true, OwnRoot: true, PrivateProcesses: true, OwnLocalhost: true, TotalLimits: true,
	}
}

// Unusable implements [Backend].
func (Namespaces) Unusable(k *Kernel) error {
	if k.Launcher == "" {
		return errors.New(k.NoLauncher)
	}
	if !k.Namespaces {
		return fmt.Errorf("namespaces are not available: %s", k.NoNamespaces)
	}
	return nil
}

// Wrap implements [Backend].
func (Namespaces) Wrap(cmd *exec.Cmd, launcher string, p confine.Policy) (Running, error) {
	p.Namespaces = true
	// A plugin that starts processes must not leave processes behind when it ends. Without Landlock, a plugin could
	// also leave its root through a process of the same user that is visible in /proc.
	p.PrivateProcesses = p.StartProcesses || p.ABI == 0
	return Wrap(cmd, launcher, p)
}

// Landlock confines a plugin by the kernel's Landlock, system call filters and resource limits.
type Landlock struct{}

// Name implements [Backend].
func (Landlock) Name() string { return "landlock" }

// Summary implements [Backend].
func (Landlock) Summary() string { return "Landlock alone" }

// Abilities implements [Backend].
func (Landlock) Abilities() Abilities {
	return Abilities{Confines: true, WholeFileSystem: true, TotalLimits: true}
}

// Unusable implements [Backend].
func (Landlock) Unusable(k *Kernel) error {
	if err := k.usable(); err != nil {
		return err
	}
	if k.ABI == 0 {
		return errors.New("the kernel has no Landlock; use Linux 5.13 or later, with landlock in lsm=")
	}
	return nil
}

// Wrap implements [Backend].
func (Landlock) Wrap(cmd *exec.Cmd, launcher string, p confine.Policy) (Running, error) {
	return Wrap(cmd, launcher, p)
}

// None does not confine a plugin. Only the host and the SDK check its actions.
type None struct{}

// Name implements [Backend].
func (None) Name() string { return "none" }

// Summary implements [Backend].
func (None) Summary() string { return "no confinement by the kernel" }

// Abilities implements [Backend].
func (None) Abilities() Abilities { return Abilities{WholeFileSystem: true} }

// Unusable implements [Backend].
func (None) Unusable(*Kernel) error { return nil }

// Wrap implements [Backend]. It does not change the command.
func (None) Wrap(*exec.Cmd, string, confine.Policy) (Running, error) {
	return func(started error, _ func(*os.File)) (net.Listener, error) { return nil, started }, nil
}
