// Package process starts commands so that all of their processes can be ended. This includes processes that moved to
// another session or lost their parent.
//
// On Linux this process is the subreaper of its orphaned descendants, so all processes of a command stay in the process
// tree below this process. The package uses /proc to determine to which command a process belongs. A process belongs to
// a command if it is in the command's session or process group, or has the command's mark in its environment. The
// descendants of such a process also belong to the command.
//
// The kernel kills a command when this process dies (PDEATHSIG). [Keeper.Close] kills all processes that commands
// have started. If this process is killed, a guard process kills them (see [Keeper.Guard]). On other systems, only
// the process group of a command is known.
package process
