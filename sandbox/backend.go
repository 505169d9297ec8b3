package sandbox

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"

	"toolhost.dev/sandbox/confine"
)

// A Backend confines the processes of plugins. A new backend needs a type in its own file and an entry in [Backends].
// The configuration of toolhost, its reference, the order of privileges and the tests then include the backend.
type Backend interface {
	// Name returns the backend's name in the configuration.
	Name() string
	// Summary returns a noun phrase that describes the backend in the reference.
	Summary() string
	Abilities() Abilities
	// Unusable returns the reason why a machine does not support the backend. A nil error means that the machine
	// supports the backend.
	Unusable(*Kernel) error
	// Wrap makes a command start confined by a launcher. See [Wrap].
	Wrap(cmd *exec.Cmd, launcher string, p confine.Policy) (Running, error)
}

// Abilities describes the restrictions that a backend enforces in addition to access to files, programs and the
// network.
type Abilities struct {
	// Confines reports whether the kernel enforces any restriction.
	Confines bool `json:"confines"`
	// SingleHosts reports whether a plugin can be limited to a list of hosts. Such a plugin reaches the hosts through a
	// proxy and has no other network access.
	SingleHosts bool `json:"single_hosts"`
	// OwnRoot reports whether a plugin has a private root file system that contains only its own files. Only a private
	// root protects metadata of other files, Unix sockets with a path, and the settings of git.
	OwnRoot bool `json:"own_root"`
	// PrivateProcesses reports whether a plugin sees only its own processes, which all end with the plugin.
	PrivateProcesses bool `json:"private_processes"`
	// OwnLocalhost reports whether a plugin without network access has a private localhost.
	OwnLocalhost bool `json:"own_localhost"`
	// WholeFileSystem reports whether the configuration can give a plugin access to the whole file system.
	WholeFileSystem bool `json:"whole_file_system"`
	// TotalLimits reports whether limits can apply to the total of all processes of a plugin.
	TotalLimits bool `json:"total_limits"`
}

// Running is a function that waits until a confined command runs. The argument "started" is the error that starting the
// command returned. If the policy has an exec gate, the function "gate" receives the listener of the exec gate before
// the command is executed. Running returns the listener of the policy's proxy, or nil if the policy has no proxy.
type Running func(started error, gate func(listener *os.File)) (net.Listener, error)

var backends = []Backend{Namespaces{}, Landlock{}, None{}}

// Backends returns all backends, from the strongest to the weakest.
func Backends() []Backend { return slices.Clone(backends) }

// Auto is the configuration value that selects the strongest backend that can be used.
const Auto = "auto"

// Words returns the configuration values for a backend: [Auto], then the names from the strongest to the weakest.
func Words() []string {
	out := []string{Auto}
	for _, b := range backends {
		out = append(out, b.Name())
	}
	return out
}

// ByPrivilege returns the configuration values for a backend in descending order of permissions. [Auto] comes
// immediately before the strongest backend, because it can also choose a weaker one.
func ByPrivilege() []string {
	words := Words()[1:]
	slices.Reverse(words)
	return slices.Insert(words, len(words)-1, Auto)
}

// Choose returns the strongest usable backend that is not stronger than the wanted backend. If the result differs from
// the wanted backend, the error is the reason. For [Auto], the error is the reason why plugins are not confined.
func (k *Kernel) Choose(want string) (Backend, error) {
	from := slices.IndexFunc(backends, func(b Backend) bool { return b.Name() == want })
	var why error
	for _, b := range backends[max(from, 0):] {
		unusable := b.Unusable(k)
		if unusable == nil {
			if want == Auto && b.Abilities().Confines {
				why = nil
			}
			return b, why
		}
		why = unusable
	}
	return None{}, why
}

// Fallback returns the backend that a configuration wants. For [Auto], this is the strongest backend. The result "why"
// is the reason why the wanted backend cannot be used, or nil if it can be used.
func (k *Kernel) Fallback(want string) (wanted Backend, why error) {
	from := slices.IndexFunc(backends, func(b Backend) bool { return b.Name() == want })
	wanted = backends[max(from, 0)]
	return wanted, wanted.Unusable(k)
}

// usable returns the reason why this machine supports no backend that needs the launcher and system call
// filters. It returns nil if the machine supports such backends.
func (k *Kernel) usable() error {
	switch {
	case k.Launcher == "":
		return errors.New(k.NoLauncher)
	case !k.Seccomp:
		return errors.New("system call filters are not supported on this system")
	}
	return nil
}

// Gate returns the reason why the exec gate cannot judge the programs of plugins under a backend. A nil error means
// that the exec gate works.
func (k *Kernel) Gate(b Backend) error {
	switch why := k.NoGate[b.Name()]; {
	case !b.Abilities().Confines:
		return errors.New("plugins are not confined")
	case why != "":
		return errors.New(why)
	}
	return nil
}

// BackendStatus reports whether a backend can be used on a machine.
type BackendStatus struct {
	Name      string    `json:"name"`
	Abilities Abilities `json:"abilities"`
	// Unusable is the reason why the backend cannot be used. Empty means that the backend can be used.
	Unusable string `json:"unusable,omitempty"`
}

// Statuses returns the status of every backend, from the strongest to the weakest.
func (k *Kernel) Statuses() []BackendStatus {
	var out []BackendStatus
	for _, b := range backends {
		s := BackendStatus{Name: b.Name(), Abilities: b.Abilities()}
		if err := b.Unusable(k); err != nil {
			s.Unusable = err.Error()
		}
		out = append(out, s)
	}
	return out
}
