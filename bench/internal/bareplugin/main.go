// Command bareplugin runs the bare plugin.
package main

import "toolhost.dev/bench/internal/bare"

func main() { bare.Serve() }
