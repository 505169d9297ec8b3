// Command ask is the plugin that serves the tool ask_user.
package main

import (
	"toolhost.dev/plugins/ask/question"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(question.Plugin()) }
