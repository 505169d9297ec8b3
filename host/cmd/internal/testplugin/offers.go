package main

import (
	"context"
	"slices"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// offering returns the plugin with prompts, a resource and a template.
func offering() sdk.Plugin {
	p := plugin()
	towns := []string{"Aachen", "Augsburg", "Berlin"}
	p.Prompts = []sdk.Prompt{{
		Name: "plan", Title: "Plan a trip", Description: "Plans a trip to a town.",
		Arguments: []sdk.PromptArgument{{
			Name: "town", Description: "Where to go.", Required: true,
			Complete: func(_ context.Context, begin string, _ map[string]string) ([]string, error) {
				return slices.DeleteFunc(slices.Clone(towns),
					func(t string) bool { return !strings.HasPrefix(t, begin) }), nil
			},
		}, {Name: "days"}},
		Get: func(_ context.Context, _ *sdk.Call, arguments map[string]string) ([]sdk.Message, error) {
			if arguments["town"] == "panic" {
				panic("no such town")
			}
			return []sdk.Message{{Text: "Plan " + arguments["days"] + " days in " + arguments["town"] + "."},
				{Role: "assistant", Text: "With pleasure."}}, nil
		},
	}}
	p.Resources = []sdk.Resource{{
		URI: "town://list", Name: "towns", Description: "All towns.", MediaType: "text/plain",
		Read: func(context.Context, *sdk.Call, map[string]string) (sdk.Document, error) {
			return sdk.Document{Text: strings.Join(towns, "\n")}, nil
		},
	}, {
		URI: "town://{name}/flag", Name: "flag", MediaType: "image/png",
		Read: func(_ context.Context, _ *sdk.Call, variables map[string]string) (sdk.Document, error) {
			if !slices.Contains(towns, variables["name"]) {
				return sdk.Document{},
					sdk.Errorf(tool.NotFound, "There is no town %q. Read town://list.", variables["name"])
			}
			return sdk.Document{Data: []byte(variables["name"])}, nil
		},
	}}
	return p
}
