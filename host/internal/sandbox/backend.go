package sandbox

import (
	"errors"
	"net"
	"os/exec"
	"slices"

	"toolhost.dev/host/internal/sandbox/confine"
)

// A Backend confines the processes of plugins. To add one, write a type in a file of its own and name it in [Backends]: the
// configuration's words, the reference, the order of privileges, toolhost doctor, the tests of escapes and the measurement of
// the sandbox follow.
type Backend interface {
	// Name returns the backend's word in the configuration.
	Name() string
	// Summary describes the backend in a noun phrase, for the reference.
	Summary() string
	Abilities() Abilities
	// Unusable returns why the backend cannot be used on a machine, or nil if it can.
	Unusable(*Kernel) error
	// Wrap makes a command start confined by a launcher. See [Wrap].
	Wrap(cmd *exec.Cmd, launcher string, p confine.Policy) (Running, error)
}

// Abilities says what a backend enforces beyond the files, programs and network of a plugin.
type Abilities struct {
	// Confines reports whether the kernel enforces anything.
	Confines bool `json:"confines"`
	// SingleHosts reports whether a plugin can reach single hosts, through a proxy, without reaching the network.
	SingleHosts bool `json:"single_hosts"`
	// OwnRoot reports whether a plugin has a root file system of its own, which has nothing else in it. Only then are
	// metadata of other files, sockets with a path and the settings of git protected.
	OwnRoot bool `json:"own_root"`
	// PrivateProcesses reports whether a plugin sees only its own processes, and all of them end with it.
	PrivateProcesses bool `json:"private_processes"`
	// OwnLocalhost reports whether a plugin without a network has a localhost of its own.
	OwnLocalhost bool `json:"own_localhost"`
	// WholeFileSystem reports whether a plugin may work on the whole file system.
	WholeFileSystem bool `json:"whole_file_system"`
	// TotalLimits reports whether limits can hold for all processes of a plugin together.
	TotalLimits bool `json:"total_limits"`
}

// Running waits until a confined command runs. It takes the error that starting the command returned, and returns the listener
// of the policy's proxy, if it has one.
type Running func(started error) (net.Listener, error)

var backends = []Backend{Namespaces{}, Landlock{}, None{}}

// Backends returns all backends, from the strongest to the weakest.
func Backends() []Backend { return slices.Clone(backends) }

// Auto is the word in the configuration for the strongest backend that can be used.
const Auto = "auto"

// Words returns the words for a backend in the configuration: [Auto], and the names from the strongest to the weakest.
func Words() []string {
	out := []string{Auto}
	for _, b := range backends {
		out = append(out, b.Name())
	}
	return out
}

// ByPrivilege returns the words for a backend in the configuration, from the one that permits the most to the one that permits
// the least. [Auto] permits more than the strongest backend, because it may choose another.
func ByPrivilege() []string {
	words := Words()[1:]
	slices.Reverse(words)
	return slices.Insert(words, len(words)-1, Auto)
}

// Choose returns the strongest backend that can be used and is not stronger than the wanted one. The error says why it is not the
// wanted one, or for [Auto] why nothing is confined.
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

// usable returns why no backend can be used that needs the launcher and system call filters.
func (k *Kernel) usable() error {
	switch {
	case k.Launcher == "":
		return errors.New(k.NoLauncher)
	case !k.Seccomp:
		return errors.New("system call filters are not supported on this system")
	}
	return nil
}

// BackendStatus says whether a backend can be used on a machine.
type BackendStatus struct {
	Name      string    `json:"name"`
	Abilities Abilities `json:"abilities"`
	// Unusable says why the backend cannot be used. Empty means that it can.
	Unusable string `json:"unusable,omitempty"`
}

// Statuses returns the backends with whether they can be used, from the strongest to the weakest.
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
