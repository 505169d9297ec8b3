// Package process implements commands that can be ended completely: not only the command's own
// process and process group, but also what moved to another session or lost its parent.
//
// On Linux this process is the reaper of its orphaned descendants, so nothing a
// command starts can leave the tree below it, and /proc tells what belongs to
// which command: the same session or process group, the command's mark in the
// environment, or a descent from one of these. A command dies with this process
// (PDEATHSIG); what it started is killed by [Keeper.Close], or, when this process
// is killed, by another one (see [Keeper.Guard]). Elsewhere the process
// group is all that is known of a command.
package process
