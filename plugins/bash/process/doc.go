// Package process implements commands that can be ended completely: not only the command's own
// process and process group, but also what moved to another session or lost its parent.
//
// On Linux this process is the subreaper of its orphaned descendants, so nothing a command starts can leave the process
// tree below it. /proc shows which process belongs to which command: one in its session or process group, one with its
// mark in the environment, or a descendant of such a process.
//
// A command dies with this process (PDEATHSIG). [Keeper.Close] kills what it started. If this process is killed, a guard
// process does that (see [Keeper.Guard]). On other systems only the process group of a command is known.
package process
