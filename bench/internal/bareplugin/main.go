// Command bareplugin is the bare plugin's process.
package main

import "toolhost.dev/bench/internal/bare"

func main() { bare.Serve() }
