// Command todo is the plugin that serves the tool todo.
package main

import (
	"toolhost.dev/plugins/todo/todos"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(todos.Plugin()) }
