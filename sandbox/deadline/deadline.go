// Package deadline kills processes when a lease ends, even if the host is stopped at that time.
//
// A watcher is a separate process. It has descriptors of the guarded processes, and a shared page of memory in which
// the host stores the end of its lease. The watcher kills the processes when the lease ends, when the host dies, or
// when the host requests it. The host calls [Start], and the watcher runs [Watch].
//
// All times are times of the clock CLOCK_BOOTTIME, which continues while the machine sleeps. No clock of a virtual
// machine shows that the machine was paused and resumed.
package deadline

import "time"

// Arg as the first argument of the launcher makes it run as a watcher.
const Arg = "deadline"

// margin is the time before the end of the lease at which the watcher kills the processes. Thus they no longer exist
// when the lease ends.
const margin = 20 * time.Millisecond
