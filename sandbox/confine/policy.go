// Package confine confines a process to a policy before the process becomes a plugin. The launcher,
// cmd/toolhost-sandbox, or a program that calls sandbox.Init, consists of this package. The host starts the launcher.
// The launcher restricts itself permanently and then executes the plugin under the same process id.
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

import "os"

// Policy lists the permissions of a plugin. The zero value permits nothing.
type Policy struct {
	// Exec is the absolute path of the plugin's binary. The launcher's command line contains the plugin's arguments
	// after the policy.
	Exec string `json:"exec"`
	// Dir is the directory in which the plugin starts. If it is empty, a plugin with Namespaces starts in the root.
	Dir string `json:"dir,omitempty"`
	// Read, Write and Run list paths. The plugin can read paths in Read, read and write paths in Write, and read and
	// execute paths in Run. Each path includes everything below it. Missing paths are skipped.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	Run   []string `json:"run,omitempty"`
	// Direct lists more paths that the plugin can read. A path through a symbolic link is skipped, because tools of
	// another host can replace a checked directory by a link.
	Direct []string `json:"direct,omitempty"`
	// Fixed lists paths within Write that the plugin cannot move or replace. Protected lists paths that the plugin also
	// cannot write, including everything below them. Both fields require Namespaces.
	Fixed     []string `json:"fixed,omitempty"`
	Protected []string `json:"protected,omitempty"`
	// ListsFD is a descriptor from which the launcher reads Lists, as JSON. Zero means that the lists are empty.
	Lists   `json:"-"`
	ListsFD int `json:"lists_fd,omitempty"`
	// MaskDir contains the objects that replace hidden files and directories. It requires Namespaces.
	MaskDir string `json:"mask_dir,omitempty"`
	// Scratch lists directories that are empty at the start and stored in memory. It requires Namespaces.
	Scratch []string `json:"scratch,omitempty"`
	// Shared is a directory of the host that the plugin sees as /tmp, in place of a directory in memory. It requires
	// Namespaces. SharedReadOnly forbids writing to it.
	Shared         string `json:"shared,omitempty"`
	SharedReadOnly bool   `json:"shared_read_only,omitempty"`
	// Branches lists overlays. They are mounted over their paths before any other path is opened. They require
	// Namespaces.
	Branches []Branch `json:"branches,omitempty"`
	// Mounts contains the host's open files for Branches, in the same order. They are closed when the launcher is
	// started.
	Mounts []*os.File `json:"-"`
	// Devices lists device files that the plugin can read, write and control.
	Devices []string `json:"devices,omitempty"`
	// StartProcesses permits the plugin to start processes, also from binaries in Write.
	StartProcesses bool `json:"start_processes,omitempty"`
	// FixedMetadata forbids changes of file modes, owners, times and attributes, which Landlock does not restrict.
	FixedMetadata bool `json:"fixed_metadata,omitempty"`
	// Network permits network access. If neither Network nor OwnNetwork is true, the plugin can use only Unix sockets.
	// A plugin that starts no processes can then only listen on Unix sockets.
	Network bool `json:"network,omitempty"`
	// ProxyPort is a port on the plugin's localhost where the host runs a proxy. The launcher sends the listening
	// socket to StatusFD, which must be a Unix socket. Zero means no proxy. ProxyPort requires Namespaces, and Network
	// must be false.
	ProxyPort uint16 `json:"proxy_port,omitempty"`
	// Gate stops every execution of a program until the host judges the program. The launcher sends the listener of the
	// filter to StatusFD, which must be a Unix socket.
	Gate bool `json:"gate,omitempty"`
	// Namespaces means that the host started the launcher in new namespaces. PrivateProcesses adds a process namespace,
	// in which the plugin is the first process.
	Namespaces       bool `json:"namespaces,omitempty"`
	PrivateProcesses bool `json:"private_processes,omitempty"`
	// Unmapped means that the user namespace has no ids yet. The launcher then reads the byte [Mapped] from StatusFD,
	// which must be a Unix socket, before it does anything else.
	Unmapped bool `json:"unmapped,omitempty"`
	// TmpBytes limits the size of each Scratch directory. Zero means no limit.
	TmpBytes uint64 `json:"tmp_bytes,omitempty"`
	Limits   Limits `json:"limits"`
	// Join lists the "tasks" files of cgroups of version 1 that limit the number of processes. The launcher moves its
	// thread to these cgroups.
	Join []string `json:"join,omitempty"`
	// ABI is the version of Landlock to enforce, from [LandlockABI]. Zero disables Landlock.
	ABI int `json:"abi"`
	// StatusFD is the descriptor to which the launcher writes the reason of a failure. The descriptor is closed when
	// the plugin is executed.
	StatusFD int `json:"status_fd"`
}

// Lists are parts of a policy that are too long for a command line.
type Lists struct {
	// Masks lists the masks, which are applied last. They require Namespaces.
	Masks []Mask
	// Execute lists the files and directories that can be executed, without symbolic links. If Execute is nil, all
	// files in Run, Write and Scratch can be executed.
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
	// Processes limits the number of processes and threads. The kernel does not apply this limit to the machine's root
	// user. For root, Policy.Join or the process namespace limits the number.
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

// Raise lists the limits that a process can raise, for example with ulimit.
type Raise struct {
	// Memory and FileSize report whether a process can raise these limits to any value.
	Memory   bool `json:"memory,omitempty"`
	FileSize bool `json:"file_size,omitempty"`
	// Files is the maximum to which a process can raise the limit of open files. Zero means Limits.Files.
	Files uint64 `json:"files,omitempty"`
}

// Mapped is the byte that the host sends to a launcher when the user namespace of the launcher has its ids.
const Mapped = 'm'

// Failure is the error report that the launcher writes to Policy.StatusFD, as JSON.
type Failure struct {
	// Step is the step that failed. StepExec means that the plugin cannot be executed.
	Step    string `json:"step"`
	Errno   int    `json:"errno,omitempty"`
	Message string `json:"message"`
}

// These are values of Step that the host handles specially. They mean that executing the plugin or installing the exec
// gate failed.
const (
	StepExec = "exec"
	StepGate = "exec gate"
)

// ProbedArg as the first argument of the launcher makes it exit with status 0.
const ProbedArg = "probed"

// ProbeArg is a value of Policy.Exec in place of the path of a binary. The launcher then only confines itself and exits
// with status 0.
const ProbeArg = "probe"
