// Command httpapi is a plugin for toolhost that calls endpoints of an HTTP API.
package main

import "toolhost.dev/sdk"

func main() {
	sdk.Serve(plugin())
}

func plugin() sdk.Plugin {
	api := newAPI()
	return sdk.Plugin{
		Name: "httpapi", Version: "0.1.0",
		Config: sdk.NewConfig(api.configure),
		Tools: []sdk.Tool{
			sdk.NewTool(sdk.Definition{
				Name:        "api_get",
				Description: "Get an endpoint of the HTTP API. The answer is its status and its body.",
				Traits:      sdk.Traits{ReadOnly: true, ConcurrencySafe: true},
				Examples:    []string{"api_get users/7"},
			}, api.get),
			sdk.NewTool(sdk.Definition{
				Name:           "custom_api_call",
				Description:    "Call an endpoint of the HTTP API with a method and data, which may change what it is about. Use api_get to look at things.",
				Examples:       []string{`custom_api_call users POST --data '{"name":"Ada"}'`, "custom_api_call users/7 DELETE"},
				StdinParameter: "data",
			}, api.call),
		},
	}
}
