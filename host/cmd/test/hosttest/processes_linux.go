package hosttest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of the orphans among its descendants, so that [Descendants] finds them.
func adoptOrphans() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
}

// Process is a running process that the test started, directly or not.
type Process struct{ PID int }

// Descendants returns the running processes that this process started, directly or not. It looks at no other process.
func Descendants() []Process { return descendantsOf(os.Getpid()) }

// descendantsOf returns the running descendants of a process.
func descendantsOf(pid int) (all []Process) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // the process has ended
	}
	for _, t := range tasks {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name())) // ignore the error: the thread has ended
		for field := range strings.FieldsSeq(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if p := (Process{PID: child}); p.stat(0) != "Z" {
				all = append(all, p)
			}
			all = append(all, descendantsOf(child)...)
		}
	}
	return all
}

// stat returns a field of the process's state in /proc, counted from the state, which is field 0. It returns "" if the
// process has ended.
func (p Process) stat(field int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)) // ignore the error: the process has ended
	_, rest, _ := strings.Cut(string(b), ") ")
	if f := strings.Fields(rest); len(f) > field {
		return f[field]
	}
	return ""
}

// Parent returns the process id of the parent.
func (p Process) Parent() int {
	n, _ := strconv.Atoi(p.stat(1)) // 0 if the process has ended
	return n
}

// Name returns the name of the program.
func (p Process) Name() string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID)) // ignore the error: the process has ended
	return strings.TrimSpace(string(b))
}

// Command returns the words of the command line, separated by spaces.
func (p Process) Command() string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // ignore the error: the process has ended
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}

// Dir returns the working directory, as the process sees it.
func (p Process) Dir() string {
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID)) // ignore the error: the process has ended
	return dir
}

// HasEnv reports whether the environment with which the process started has a variable NAME=VALUE.
func (p Process) HasEnv(is func(string) bool) bool {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID)) // ignore the error: the process has ended
	return slices.ContainsFunc(strings.Split(string(env), "\x00"), is)
}

// ChildrenNamed returns the ids of the running child processes with the given name. A plugin can have several
// processes.
func ChildrenNamed(parent int, name string) (pids []int) {
	for _, p := range descendantsOf(parent) {
		if p.Name() == name && p.Parent() == parent {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// TerminalPair returns both ends of a pseudo-terminal. The test types at the end "person", and the tested program uses
// the end "program".
func TerminalPair(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}
