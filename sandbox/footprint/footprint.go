// Package footprint limits the memory that a process and its descendants use together, without a cgroup. [Watch]
// measures the memory at intervals and kills the largest process if the sum exceeds a limit. Between two measurements
// the processes can use more, so the limit is a safety net and not a guarantee.
package footprint

import (
	"cmp"
	"slices"
	"time"
)

// Killed describes a process that [Watch] killed.
type Killed struct {
	Name string
	PID  int
	// Used is the memory of all processes together at that time, in bytes.
	Used uint64
}

// These are the intervals between two measurements. The interval is long while the machine uses less than half of the
// limit.
const (
	idle   = time.Second
	normal = 250 * time.Millisecond
	near   = 50 * time.Millisecond
)

// Watch kills processes while the process pid and its descendants use more than limit bytes of anonymous memory
// together. It kills the process itself only if it has no descendants. The caller must call stop.
func Watch(pid int, limit uint64, killed func(Killed)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(normal)
		defer timer.Stop()
		for {
			select {
			case <-end:
				return
			case <-timer.C:
			}
			timer.Reset(check(pid, limit, killed))
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// check measures once and returns the time until the next measurement.
func check(pid int, limit uint64, killed func(Killed)) time.Duration {
	// Reading the memory of the whole machine is much faster than reading the memory of all its processes.
	if used := machineUsed(); used < limit/2 {
		return idle
	} else if used < limit {
		return normal
	}
	all := tree(pid)
	switch used := sum(all); {
	case used <= limit/4*3:
		return normal
	case used <= limit:
		return near
	}
	for i := range all { // pages that a process shares with its children were counted for each of them
		all[i].anonymous = all[i].exact()
	}
	used := sum(all)
	slices.SortFunc(all, func(a, b process) int {
		if (a.pid == pid) != (b.pid == pid) { // sort the process itself last
			return cmp.Compare(bit(a.pid == pid), bit(b.pid == pid))
		}
		return cmp.Compare(b.anonymous, a.anonymous)
	})
	left := used
	for _, p := range all {
		if left <= limit || p.pid == pid && len(all) > 1 {
			break
		}
		left -= p.anonymous
		if p.kill() {
			killed(Killed{Name: p.name, PID: p.pid, Used: used})
		}
	}
	return near
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sum(all []process) (n uint64) {
	for _, p := range all {
		n += p.anonymous
	}
	return n
}

// process is one process of a tree.
type process struct {
	pid, parent, group int
	name               string
	// began is the start time of the process, in the kernel's unit. It distinguishes the process from a later process
	// with the same id.
	began string
	// anonymous is the size of its anonymous memory in bytes.
	anonymous uint64
}
