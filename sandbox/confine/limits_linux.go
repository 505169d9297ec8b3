package confine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// setLimits sets the resource limits. It also disables core dumps, which would write a plugin's memory to the working
// directory.
func setLimits(p *Policy) error {
	l := p.Limits
	hard := func(value uint64, raise bool) uint64 {
		if raise {
			return unix.RLIM_INFINITY
		}
		return value
	}
	processes := l.processes(p.Namespaces)
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
		hard     uint64
		set      bool
	}{
		{"core", unix.RLIMIT_CORE, 0, 0, true},
		{"processes", unix.RLIMIT_NPROC, processes, processes, l.Processes > 0},
		{"files", unix.RLIMIT_NOFILE, l.Files, max(l.Files, l.Raise.Files), l.Files > 0},
		{"file_size", unix.RLIMIT_FSIZE, l.FileSize, hard(l.FileSize, l.Raise.FileSize), l.FileSize > 0},
		{"cpu", unix.RLIMIT_CPU, l.CPU, l.CPU + 1, l.CPU > 0}, // at the soft limit, the kernel sends SIGXCPU, which names the limit
		// RLIMIT_AS would also count reserved address space, and Node and Java reserve much address space.
		{"memory", unix.RLIMIT_DATA, l.Memory, hard(l.Memory, l.Raise.Memory), l.Memory > 0},
	} {
		if !r.set {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(r.resource, &now); err != nil {
			return fmt.Errorf("the limit %s cannot be read: %w", r.name, err)
		}
		// A plugin cannot have a higher limit than the host.
		if err := unix.Setrlimit(r.resource,
			&unix.Rlimit{Cur: min(r.value, now.Max), Max: min(r.hard, now.Max)}); err != nil {
			return fmt.Errorf("the limit %s cannot be set: %w", r.name, err)
		}
	}
	return nil
}

// processes returns the process limit for the kernel. In a separate user namespace, the kernel counts only the plugin's
// processes. Otherwise, the kernel also counts the other processes of the user. In this case, the method adds the
// number of all tasks on the machine to the limit. This number is an upper bound for the number of the other processes.
// Unlike these processes, the number is visible in a container.
func (l *Limits) processes(namespace bool) uint64 {
	if namespace || l.Processes == 0 {
		return l.Processes
	}
	text, err := os.ReadFile("/proc/loadavg")
	var load [3]float64
	var running, all uint64
	if n, _ := fmt.Sscanf(string(text), "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &all); err != nil ||
		n != 5 {
		return l.Processes
	}
	return l.Processes + all
}

// Kept lists the capabilities that root keeps. These capabilities permit access to other users' files. The other layers
// restrict this access.
var Kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
}

// dropCapabilities permanently drops all capabilities that are not in the list [Kept]. Executing a program as root does
// not restore them.
func dropCapabilities() error {
	var kept uint32
	for _, c := range Kept {
		kept |= 1 << c
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); c < 64; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // the kernel does not support higher numbers
		}
		if has == 1 && kept>>c&1 == 0 {
			// Without CAP_SETPCAP this call fails, but then executing a program cannot add capabilities.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	keep := uint32(0)
	if unix.Geteuid() == 0 {
		keep = kept
	}
	data[0].Permitted &= keep
	data[0].Effective &= keep
	data[0].Inheritable = 0
	data[1] = unix.CapUserData{}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
