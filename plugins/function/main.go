// Command function is the plugin that serves the operator's functions as tools. The operator defines them in the JSON
// form that APIs of models use for function calling. The host starts one process of the plugin for each field block
// that contains function blocks.
package main

import (
	"flag"
	"time"

	"toolhost.dev/plugins/function/functions"
	"toolhost.dev/sdk"
)

func main() {
	limit := flag.Duration("call-timeout", 2*time.Minute, "maximum time of a call")
	programs := flag.Bool("programs", false, "some functions run a program")
	endpoints := flag.Bool("endpoints", false, "some functions call an HTTP endpoint")
	flag.Parse()
	sdk.Serve(functions.Plugin(*limit, needs(*programs, *endpoints)))
}

// needs returns the grants that the plugin needs. The grants depend on whether functions run programs or use
// endpoints.
func needs(programs, endpoints bool) *sdk.Needs {
	n := new(sdk.Needs)
	if programs {
		n.Read, n.Write, n.Exec, n.Network = sdk.Optional, sdk.Optional, sdk.Required, sdk.Optional
	}
	if endpoints {
		n.Network = sdk.Required
	}
	return n
}
