// Command toolhost-sandbox is the launcher of confined plugins. The host starts the launcher with a policy. The launcher
// confines itself permanently and then executes the plugin in the same process. The launcher is a separate program
// because a small binary starts faster.
//
// As a warden, the program changes the masks of a running plugin instead; see [confine.Warden].
package main

import (
	"os"

	"toolhost.dev/host/internal/sandbox/confine"
)

// joined is the result of the system call with which the entry point of a warden joins the plugin's namespaces. A
// positive value means that the program has no such entry point.
var joined int64 = 1

func main() {
	if os.Args[0] == confine.WardenName {
		confine.Warden(joined)
	}
	confine.Main()
}
