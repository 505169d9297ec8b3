// Command toolhost-sandbox is the launcher of confined plugins. The host starts it with a
// policy; it has the kernel confine it for good, and then becomes the plugin. It is a
// program of its own because a start costs what the binary weighs.
package main

import "toolhost.dev/host/internal/sandbox/confine"

func main() { confine.Main() }
