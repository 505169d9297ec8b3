//go:build linux && (amd64 || arm64)

package seccomp

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Known reports whether this package knows the system calls of the architecture.
const Known = true

// These are the offsets of the fields of struct seccomp_data, which the kernel passes to a filter.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // offset of the low 32 bits, on a little-endian machine
)

const (
	load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAbove = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K // jump if above or equal
	ifSet   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	give    = unix.BPF_RET | unix.BPF_K
)

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// denied lists the system calls that are denied on every architecture and under every policy. These calls
// access other processes or the kernel, or bypass the other layers.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME,
	unix.SYS_SETDOMAINNAME,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
}

// unknown lists system calls that return ENOSYS, so that programs use alternatives. A filter cannot check the actions
// of these calls.
var unknown = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// metadata lists the system calls that change the metadata of files.
var metadata = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR,
}

// sharedMemory lists the system calls for named shared memory and queues. Named memory outlives processes and is not
// restricted by file permissions.
var sharedMemory = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
}

// filter is a partial program for the packet filter of the kernel (BPF).
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// answer makes a system call fail with an error. The filter must have loaded the system call number before.
func (f *filter) answer(number uint32, e unix.Errno) {
	f.add(ifEqual, number, 0, 1)
	f.add(give, errno(e), 0, 0)
}

// forbidWhere makes a system call fail with EPERM if one of its arguments has certain values. The filter compares the
// argument with k. The call fails if the result of this comparison equals comesOut.
func (f *filter) forbidWhere(number uint32, arg int, test uint16, k uint32, comesOut bool) {
	f.add(ifEqual, number, 0, 4)
	f.add(load, offsetArgs+8*uint32(arg), 0, 0)
	if comesOut {
		f.add(test, k, 0, 1)
	} else {
		f.add(test, k, 1, 0)
	}
	f.add(give, errno(unix.EPERM), 0, 0)
	f.add(load, offsetNumber, 0, 0)
}

// families makes a system call fail if the call creates a socket with an address family that is not allowed.
func (f *filter) families(number uint32, allowed []uint32) {
	n := uint8(len(allowed))
	f.add(ifEqual, number, 0, n+3)
	f.add(load, offsetArgs, 0, 0)
	for i, family := range allowed {
		f.add(ifEqual, family, n-uint8(i), 0)
	}
	f.add(give, errno(unix.EAFNOSUPPORT), 0, 0)
	f.add(load, offsetNumber, 0, 0)
}

// executions restricts which programs and files can be executed.
func (f *filter) executions(r Rules) {
	if r.ListedPrograms { // a file in memory is not on a mount, so noexec has no effect on it
		f.forbidWhere(unix.SYS_MEMFD_CREATE, 1, ifSet, noExecSeal, false)
	}
	if r.Gate {
		for _, n := range []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT} {
			f.add(ifEqual, n, 0, 1)
			f.add(give, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
		}
	}
}

// program returns the filter for the rules.
func program(r Rules) filter {
	var f filter
	f.add(load, offsetArch, 0, 0)
	f.add(ifEqual, arch, 1, 0)
	f.add(give, unix.SECCOMP_RET_KILL_PROCESS, 0, 0)
	f.add(load, offsetNumber, 0, 0)
	f.add(ifAbove, 0x40000000, 0, 1) // reject calls of the x32 ABI, which have other numbers
	f.add(give, errno(unix.ENOSYS), 0, 0)
	for _, n := range unknown {
		f.answer(n, unix.ENOSYS)
	}
	for _, n := range slices.Concat(denied, deniedHere) {
		f.answer(n, unix.EPERM)
	}
	for _, n := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.forbidWhere(n, 0, ifSet, namespaces, true)
	}
	f.forbidWhere(unix.SYS_IOCTL, 1, ifEqual, unix.TIOCSTI, true)
	f.forbidWhere(unix.SYS_IOCTL, 1, ifEqual, tioclinux, true)
	// Forbid access to the limits of other processes, such as the host.
	f.forbidWhere(unix.SYS_PRLIMIT64, 0, ifEqual, 0, false)
	if !r.StartProcesses {
		f.forbidWhere(unix.SYS_CLONE, 0, ifSet, unix.CLONE_THREAD, false)
		for _, n := range forks {
			f.answer(n, unix.EPERM)
		}
	}
	if r.FixedMetadata {
		for _, n := range slices.Concat(metadata, metadataHere) {
			f.answer(n, unix.EPERM)
		}
	}
	if !r.Namespaces {
		for _, n := range sharedMemory {
			f.answer(n, unix.EPERM)
		}
	}
	allowed := []uint32{unix.AF_UNIX}
	switch {
	case r.Internet:
		allowed = append(allowed, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	case !r.StartProcesses:
		// The plugin only listens, because the host connects to the plugin. Connections to the Unix sockets of other
		// services are forbidden.
		f.answer(unix.SYS_CONNECT, unix.EACCES)
		f.forbidWhere(unix.SYS_SOCKET, 1, ifSet, notStream, true)
	}
	f.families(unix.SYS_SOCKET, allowed)
	f.families(unix.SYS_SOCKETPAIR, allowed)
	f.executions(r)
	f.add(give, unix.SECCOMP_RET_ALLOW, 0, 0)
	return f
}

// noExecSeal is a flag for a file in memory that can never be executed. The kernel supports the flag since Linux 6.3.
const noExecSeal = 8

// notStream contains bits that occur in other socket types but not in SOCK_STREAM.
const notStream = (unix.SOCK_DGRAM | unix.SOCK_RAW | unix.SOCK_SEQPACKET) &^ unix.SOCK_STREAM

// tioclinux is an ioctl that pastes text into a virtual terminal. Package unix does not define it.
const tioclinux = 0x541c

// waitKillable is a flag with which a process that waits for the host can only be interrupted by a fatal signal.
// Without the flag, any signal would restart the system call, and the host would judge it twice. The kernel supports
// the flag since Linux 5.19.
const waitKillable = 1 << 5

// Install installs the filter for this thread. The thread must have no_new_privs. With a gate, Install returns the
// listener of the filter. Otherwise it returns a negative number.
func Install(r Rules) (listener int, err error) {
	f := program(r)
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	install := func(flags uintptr) (int, unix.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
			uintptr(unsafe.Pointer(&prog)))
		return int(fd), errno
	}
	var errno unix.Errno
	if r.Gate {
		listener, errno = install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | waitKillable)
		if errno == unix.EINVAL {
			listener, errno = install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
		}
	} else {
		listener = -1
		_, errno = install(0)
	}
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return listener, nil
}
