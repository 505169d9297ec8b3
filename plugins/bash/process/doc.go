// Package process starts commands that can be ended completely. Besides the command's process and process group, it also
// ends processes that moved to another session or lost their parent.
//
// On Linux this process is the subreaper of its orphaned descendants, so all processes of a command stay in the process
// tree below this process. /proc shows to which command a process belongs. A process belongs to a command if it is in
// the command's session or process group, or has the command's mark in its environment. The descendants of such a
// process belong to the command, too.
//
// A command dies with this process (PDEATHSIG). [Keeper.Close] kills all processes that commands have started. If this
// process is killed, a guard process kills them (see [Keeper.Guard]). On other systems, only the process group of a
// command is known.
package process
