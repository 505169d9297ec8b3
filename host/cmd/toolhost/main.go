// Command toolhost provides tools to an LLM agent. It loads the tools from plugins and runs command strings with these
// tools.
package main

import (
	"os"

	"toolhost.dev/host/cmd/internal/cli"
)

func main() { os.Exit(cli.Main()) }
