// Package seccomp denies system calls that bypass the other layers of the sandbox. [Install] installs a filter in the
// kernel. The filter applies to the thread, to programs that the thread executes, and to processes that it starts.
package seccomp

// Rules selects the system calls that a filter permits. The zero value permits the fewest.
type Rules struct {
	// StartProcesses permits processes and the programs that they execute.
	StartProcesses bool
	// ListedPrograms means that only listed programs can be executed. Files in memory then cannot be executed.
	ListedPrograms bool
	// Gate stops every execution of a program until the host judges the program.
	Gate bool
	// FixedMetadata forbids changes of file modes, owners, times and attributes.
	FixedMetadata bool
	// Namespaces means that the process has its own namespaces. Named shared memory is then permitted, because no
	// process outside can use it.
	Namespaces bool
	// Internet permits sockets of the internet protocols. Otherwise only Unix sockets are permitted.
	Internet bool
}
