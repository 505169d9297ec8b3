// Command toolhost-sandbox is the launcher of confined plugins. The host starts the launcher with a policy. The launcher
// confines itself permanently and then executes the plugin in the same process. The launcher is a separate program
// because a small binary starts faster.
package main

import "toolhost.dev/host/internal/sandbox/confine"

func main() { confine.Main() }
