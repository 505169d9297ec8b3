// Command toolhost-sandbox is the launcher of confined plugins. The host starts the launcher with a policy. The
// launcher confines itself permanently and then executes the plugin in the same process. The launcher is a separate
// program because a small binary starts faster.
//
// The program has two other modes. As a warden, it changes the masks of a running plugin; see [confine.Warden]. As a
// watcher, it kills plugins when a lease ends; see [deadline.Watch].
package main

import (
	"os"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/deadline"
)

// joined is the result of the system call with which the entry point of a warden joins the plugin's namespaces. A
// positive value means that the program has no such entry point.
var joined int64 = 1

func main() {
	if os.Args[0] == confine.WardenName {
		confine.Warden(joined)
	}
	if len(os.Args) == 2 && os.Args[1] == deadline.Arg {
		os.Exit(deadline.Watch())
	}
	confine.Main()
}
