// Package confine confines a process to a policy before the process becomes a plugin. The launcher, cmd/toolhost-sandbox,
// consists of this package. The host starts the launcher, which restricts itself permanently. Then it executes the plugin
// under the same process id.
//
// The following layers apply to the plugin and to all processes that it starts:
//
//  1. namespaces, if the policy enables them: a private root that contains only the policy's paths, no network,
//     and only the plugin's own processes;
//  2. no_new_privs, and only those capabilities that concern files;
//  3. resource limits;
//  4. Landlock, with all access rights that the kernel supports;
//  5. seccomp, which denies system calls that bypass the other layers.
package confine

// Policy lists what a plugin can access. The zero value permits nothing.
type Policy struct {
	// Exec is the absolute path of the plugin's binary. The launcher's command line contains the plugin's arguments
	// after the policy.
	Exec string `json:"exec"`
	// Read, Write and Run list paths that the plugin can read, read and write, or read and execute. Each path includes
	// everything below it. Missing paths are skipped.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	Run   []string `json:"run,omitempty"`
	// Fixed lists paths within Write that the plugin cannot move or replace. Protected lists paths that it cannot write
	// to either, including everything below them. Both require Namespaces.
	Fixed     []string `json:"fixed,omitempty"`
	Protected []string `json:"protected,omitempty"`
	// ListsFD is a descriptor from which the launcher reads Lists, as JSON. Zero means none.
	Lists   `json:"-"`
	ListsFD int `json:"lists_fd,omitempty"`
	// MaskDir contains what replaces hidden files and directories. It requires Namespaces.
	MaskDir string `json:"mask_dir,omitempty"`
	// Scratch lists directories that start empty and are kept in memory. It requires Namespaces.
	Scratch []string `json:"scratch,omitempty"`
	// Devices lists device files that the plugin can read, write and control.
	Devices []string `json:"devices,omitempty"`
	// StartProcesses permits the plugin to start processes, also from binaries in Write.
	StartProcesses bool `json:"start_processes,omitempty"`
	// FixedMetadata forbids changes of file modes, owners, times and attributes, which Landlock does not restrict.
	FixedMetadata bool `json:"fixed_metadata,omitempty"`
	// Network permits network access. Without it, and unless OwnNetwork is true, the plugin can use only Unix sockets. A
	// plugin that starts no processes can then only listen on them.
	Network bool `json:"network,omitempty"`
	// ProxyPort is the port on the plugin's localhost at which the host listens. The launcher sends the listening socket
	// to StatusFD, which must be a Unix socket. Zero means no proxy. ProxyPort requires Namespaces, and Network must be
	// false.
	ProxyPort uint16 `json:"proxy_port,omitempty"`
	// Gate stops every execution of a program until the host has judged it. The launcher sends the listener of the filter to
	// StatusFD, which must be a Unix socket.
	Gate bool `json:"gate,omitempty"`
	// Namespaces means that the host started the launcher in new namespaces. PrivateProcesses adds a process namespace,
	// in which the plugin is the first process.
	Namespaces       bool `json:"namespaces,omitempty"`
	PrivateProcesses bool `json:"private_processes,omitempty"`
	// TmpBytes limits the size of each Scratch directory. Zero means no limit.
	TmpBytes uint64 `json:"tmp_bytes,omitempty"`
	Limits   Limits `json:"limits"`
	// Join lists files "tasks" of cgroups of version 1. The launcher moves its thread there. They must limit the number of
	// processes.
	Join []string `json:"join,omitempty"`
	// ABI is the version of Landlock to enforce, from [LandlockABI]. Zero disables Landlock.
	ABI int `json:"abi"`
	// StatusFD is the descriptor to which the launcher writes the reason of a failure. It is closed when the plugin
	// runs.
	StatusFD int `json:"status_fd"`
}

// Lists are parts of a policy that are too long for a command line.
type Lists struct {
	// Masks apply last. They require Namespaces.
	Masks []Mask
	// Execute lists the files and directories that can be executed, without symbolic links. If it is nil, everything in
	// Run, Write and Scratch can be executed.
	Execute []string
}

// OwnNetwork reports whether the plugin has a private network. The processes of the plugin can communicate over its
// loopback device.
func (p *Policy) OwnNetwork() bool {
	return p.Namespaces && (p.StartProcesses || p.ProxyPort > 0) && !p.Network
}

// Limits are resource limits of each process. Only Processes applies to all processes of the plugin. A zero value keeps
// the host's limit.
type Limits struct {
	// Memory limits the data of a process, in bytes.
	Memory uint64 `json:"memory,omitempty"`
	// Processes limits the number of processes and threads. The kernel does not apply it to root of the machine, for whom
	// Policy.Join or the process namespace limits the number.
	Processes uint64 `json:"processes,omitempty"`
	// Files limits the number of files that a process can have open.
	Files uint64 `json:"files,omitempty"`
	// FileSize limits the size of a file that a process writes, in bytes.
	FileSize uint64 `json:"file_size,omitempty"`
	// CPU limits the CPU time of a process, in seconds.
	CPU uint64 `json:"cpu,omitempty"`
	// Raise permits a process to raise some of its limits.
	Raise Raise `json:"raise,omitzero"`
}

// Raise lists the limits that a process can raise, with ulimit for example.
type Raise struct {
	// Memory and FileSize can be raised without limit.
	Memory   bool `json:"memory,omitempty"`
	FileSize bool `json:"file_size,omitempty"`
	// Files is the number up to which a process can raise its number of open files. Zero means Limits.Files.
	Files uint64 `json:"files,omitempty"`
}

// Failure is the error report that the launcher writes to Policy.StatusFD, as JSON.
type Failure struct {
	// Step is the step that failed. StepExec means that the plugin cannot be executed.
	Step    string `json:"step"`
	Errno   int    `json:"errno,omitempty"`
	Message string `json:"message"`
}

// The steps of a failure that the host treats specially: executing the plugin, and installing the exec gate.
const (
	StepExec = "exec"
	StepGate = "exec gate"
)

// ProbedArg as the first argument makes the launcher exit with status 0.
const ProbedArg = "probed"

// ProbeArg in place of a binary makes the launcher confine itself and exit with status 0.
const ProbeArg = "probe"
