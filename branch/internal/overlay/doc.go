// Package overlay mounts the overlay file system of a branch. [Start] starts a process that holds the mount, and
// [Holder.Clone] returns a mount for one other process.
package overlay
