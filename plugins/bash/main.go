// Command bash is the plugin that serves the tools bash and job.
package main

import (
	"toolhost.dev/plugins/bash/bash"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(bash.Plugin()) }
