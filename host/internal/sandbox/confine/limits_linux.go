package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// setLimits sets the resource limits. It also disables core dumps, which would write a plugin's memory to the working
// directory.
func setLimits(l Limits) error {
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
		set      bool
	}{
		{"core", unix.RLIMIT_CORE, 0, true},
		{"processes", unix.RLIMIT_NPROC, l.Processes, l.Processes > 0},
		{"files", unix.RLIMIT_NOFILE, l.Files, l.Files > 0},
		{"file_size", unix.RLIMIT_FSIZE, l.FileSize, l.FileSize > 0},
		{"cpu", unix.RLIMIT_CPU, l.CPU, l.CPU > 0},
		// RLIMIT_AS would also count reserved address space, and Node and Java reserve much of it.
		{"memory", unix.RLIMIT_DATA, l.Memory, l.Memory > 0},
	} {
		if !r.set {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(r.resource, &now); err != nil {
			return fmt.Errorf("the limit %s cannot be read: %w", r.name, err)
		}
		value := min(r.value, now.Max) // a plugin cannot have a higher limit than the host
		if err := unix.Setrlimit(r.resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("the limit %s cannot be set: %w", r.name, err)
		}
	}
	return nil
}

// kept lists the capabilities that root keeps. They permit access to other users' files, which the other layers
// restrict.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// dropCapabilities permanently drops all capabilities that are not in kept. Executing a program as root does not restore
// them.
func dropCapabilities() error {
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
