package telemetry

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// clockTicks is the kernel's USER_HZ, which is 100 on all systems that Go supports.
const clockTicks = 100

// processUsage is the usage of a process, including its child processes.
type processUsage struct {
	identity
	Usage
}

// usages returns the usage of processes. An entry is nil if the process ended or the system has no /proc.
func usages(processes []Process) []*processUsage {
	out := make([]*processUsage, len(processes))
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return out
	}
	for i, p := range processes {
		out[i] = usage(fs, p.PID)
	}
	return out
}

// LargestMemory returns the resident memory of the largest of some processes, in bytes. It returns 0 if none can be
// read.
func LargestMemory(pids []int) (most uint64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		if u, _, err := one(fs, pid); err == nil {
			most = max(most, u.Memory)
		}
	}
	return most
}

// maxTree limits the number of child processes per plugin whose usage is read.
const maxTree = 4096

func usage(fs procfs.FS, pid int) *processUsage {
	root, began, err := one(fs, pid)
	if err != nil {
		return nil
	}
	out := &processUsage{identity: identity{pid, began}, Usage: root}
	tree := children(pid)
	for i := 0; i < len(tree) && i < maxTree; i++ {
		if u, _, err := one(fs, tree[i]); err == nil { // skip an ended process, because the usage of its parent contains it
			out.add(u)
			tree = append(tree, children(tree[i])...)
		}
	}
	return out
}

// one returns the usage of a process. It includes ended child processes for which the process has waited.
func one(fs procfs.FS, pid int) (Usage, uint64, error) {
	p, err := fs.Proc(pid)
	if err != nil {
		return Usage{}, 0, err
	}
	st, err := p.Stat()
	if err != nil {
		return Usage{}, 0, err
	}
	u := Usage{CPU: (float64(st.UTime+st.STime) + float64(st.CUTime+st.CSTime)) / clockTicks,
		Memory: uint64(max(0, st.ResidentMemory()))}
	if io, err := p.IO(); err == nil { // the kernel can lack the counters, or hide them from the host
		u.Read, u.Written = &io.ReadBytes, &io.WriteBytes
	}
	return u, st.Starttime, nil
}

func children(pid int) []int {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, t := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
