package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/conformance"
)

type greetArgs struct {
	Name  string `json:"name" jsonschema:"Whom to greet."`
	Times int    `json:"times" default:"1" min:"1" max:"9" jsonschema:"How often to greet."`
}

// This is the main function of a plugin that serves one tool.
func ExampleServe() {
	sdk.Serve(sdk.Plugin{
		Name: "greeter", Version: "1.0.0",
		Tools: []sdk.Tool{
			sdk.NewTool(sdk.Definition{Name: "greet", Description: "Greet a person."},
				func(_ context.Context, _ *sdk.Call, in struct {
					Name string `json:"name"`
				}) (*sdk.Result, error) {
					return sdk.Text("Hello, " + in.Name), nil
				}),
		},
	})
}

// The input schema of the tool is inferred from the struct greetArgs. The host checks the arguments against the
// schema and fills in the defaults. Then it calls the handler.
func ExampleNewTool() {
	// type greetArgs struct {
	//	Name  string `json:"name" jsonschema:"Whom to greet."`
	//	Times int    `json:"times" default:"1" min:"1" max:"9" jsonschema:"How often to greet."`
	// }
	greet := sdk.NewTool(
		sdk.Definition{Name: "greet", Description: "Greet a person.", Traits: sdk.Traits{ReadOnly: true}},
		func(_ context.Context, _ *sdk.Call, in greetArgs) (*sdk.Result, error) {
			if in.Name == "nobody" {
				return nil, sdk.Errorf(tool.InvalidArguments, "Nobody cannot be greeted. Name a person.")
			}
			return sdk.Text(fmt.Sprintf("Hello, %s, %d times", in.Name, in.Times)), nil
		},
	)

	// Call the tool in the same manner as the host.
	plugin, err := sdk.New(sdk.Plugin{Name: "greeter", Version: "1.0.0", Tools: []sdk.Tool{greet}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, arguments := range []string{`{"name":"Ada","times":2}`, `{"name":"nobody","times":1}`} {
		res := plugin.Call(ctx, &tool.Call{Tool: "greet", Arguments: json.RawMessage(arguments)}, nil)
		if res.Error != nil {
			fmt.Printf("%s: %s\n", res.Error.Kind, res.Error.Message)
			continue
		}
		fmt.Println(res.Output)
	}
	// Output:
	// Hello, Ada, 2 times
	// invalid_arguments: Nobody cannot be greeted. Name a person.
}

// serveExample is an environment variable. If it is set, the test program runs as the plugin of [ExampleServe].
const serveExample = "TOOLHOST_SERVE_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(serveExample) != "" {
		ExampleServe()
		return
	}
	if os.Getenv(serveStuck) != "" {
		stuckPlugin()
	}
	os.Exit(m.Run())
}

// TestExampleServe checks that the example is a complete plugin.
func TestExampleServe(t *testing.T) {
	conformance.Test(t, conformance.Options{Binary: os.Args[0], Env: []string{serveExample + "=1"}})
}
