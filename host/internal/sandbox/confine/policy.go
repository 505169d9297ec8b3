// Package confine has the kernel confine a process to a policy before the process
// becomes a plugin. It is what the launcher, cmd/toolhost-sandbox, consists of: the host
// starts the launcher, which restricts itself for good and then executes the plugin in
// its place, under the same process id.
//
// The layers, each of which holds for all that the plugin starts:
//
//  1. namespaces, where the policy has them: a root of its own that holds what the policy
//     names and nothing else, no network, no processes but its own;
//  2. no_new_privs, and no capabilities but those over files;
//  3. resource limits;
//  4. Landlock, with all the rights that the kernel knows;
//  5. seccomp: no system calls that reach around the others.
package confine

// Policy is what a plugin may do. The zero value may do nothing.
type Policy struct {
	// Exec is the binary of the plugin, absolute; the arguments follow the policy on the
	// launcher's command line.
	Exec string `json:"exec"`
	// Read, Write and Run are paths that may be read, read and written, read and executed;
	// with what is below them. Those that do not exist are left out.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	Run   []string `json:"run,omitempty"`
	// Fixed are paths within Write that cannot be moved or replaced, and Protected such that cannot
	// be written to either, with what is below them. Only with Namespaces.
	Fixed     []string `json:"fixed,omitempty"`
	Protected []string `json:"protected,omitempty"`
	// Scratch are directories that are empty at first and kept in memory. Only with Namespaces.
	Scratch []string `json:"scratch,omitempty"`
	// Devices are device files that may be read, written and controlled.
	Devices []string `json:"devices,omitempty"`
	// StartProcesses lets it start processes, also from binaries in Write.
	StartProcesses bool `json:"start_processes,omitempty"`
	// FixedMetadata keeps it from changing modes, owners, times and attributes of files,
	// which Landlock does not guard.
	FixedMetadata bool `json:"fixed_metadata,omitempty"`
	// Network lets it reach the network. Without, see OwnNetwork; else it has Unix sockets
	// only, and if it starts no processes, only to listen.
	Network bool `json:"network,omitempty"`
	// ProxyPort is the port of its own localhost at which the host is to listen: the socket is sent to
	// StatusFD, which is a Unix socket then. 0: none. Only with Namespaces and without Network.
	ProxyPort uint16 `json:"proxy_port,omitempty"`
	// Namespaces says that the host started the launcher in new ones. PrivateProcesses:
	// one for processes too, in which the plugin is the first.
	Namespaces       bool `json:"namespaces,omitempty"`
	PrivateProcesses bool `json:"private_processes,omitempty"`
	// TmpBytes bounds each of Scratch. 0: 512 MiB.
	TmpBytes uint64 `json:"tmp_bytes,omitempty"`
	Limits   Limits `json:"limits"`
	// ABI is the version of Landlock to enforce, as [LandlockABI] gives it; 0: none.
	ABI int `json:"abi"`
	// StatusFD is the descriptor on which the launcher tells why it failed. It is closed
	// when the plugin runs.
	StatusFD int `json:"status_fd"`
}

// OwnNetwork reports whether there is a network of its own, with a loopback device by
// which what it starts can talk to each other.
func (p *Policy) OwnNetwork() bool {
	return p.Namespaces && (p.StartProcesses || p.ProxyPort > 0) && !p.Network
}

// Limits are resource limits of each process, but Processes, which is one of the user's,
// and in a user namespace of the namespace's. 0: as the host has it.
type Limits struct {
	// Memory bounds the data of a process, in bytes.
	Memory uint64 `json:"memory,omitempty"`
	// Processes and threads. It does not bind root.
	Processes uint64 `json:"processes,omitempty"`
	// Files that a process may have open.
	Files uint64 `json:"files,omitempty"`
	// FileSize bounds a file that is written, in bytes.
	FileSize uint64 `json:"file_size,omitempty"`
	// CPU time of a process, in seconds.
	CPU uint64 `json:"cpu,omitempty"`
}

// Failure is what the launcher tells on Policy.StatusFD, as JSON.
type Failure struct {
	// Step that failed; StepExec: the plugin itself cannot be executed.
	Step    string `json:"step"`
	Errno   int    `json:"errno,omitempty"`
	Message string `json:"message"`
}

// StepExec is the step of executing the plugin.
const StepExec = "exec"

// ProbeArg instead of a binary has the launcher confine itself and end with status 0.
const ProbeArg = "probe"
