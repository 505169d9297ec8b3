//go:build !linux

package hosttest

// Process is a running process that the test started, directly or not.
type Process struct{ PID int }

// Descendants returns nil, because these systems have no list of the children of a process.
func Descendants() []Process { return nil }

// ChildrenNamed returns nil, like [Descendants].
func ChildrenNamed(int, string) []int { return nil }

// Command, Dir and Name return "".
func (Process) Command() string { return "" }

// Dir returns "".
func (Process) Dir() string { return "" }

// Name returns "".
func (Process) Name() string { return "" }

// HasEnv returns false.
func (Process) HasEnv(func(string) bool) bool { return false }

func adoptOrphans() {}

// Parent returns 0.
func (Process) Parent() int { return 0 }
