package conformance_test

import (
	"context"
	"os"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest/conformance"
)

// This is the whole conformance test of a plugin, in whatever language the plugin is written. It runs the binary, so build that first.
func ExampleTest() {
	TestConformance := func(t *testing.T) {
		conformance.Test(t, conformance.Options{Binary: greeter, Env: greeterEnv})
	}
	start(TestConformance) // the testing package does that in a plugin
}

var start func(test func(*testing.T))

func TestExampleTest(t *testing.T) {
	start = func(test func(*testing.T)) { t.Run("TestConformance", test) }
	ExampleTest()
}

// The test's own program is the plugin of the example if this variable is set.
const serveGreeter = "TOOLHOST_SERVE_GREETER"

var greeter, greeterEnv = os.Args[0], []string{serveGreeter + "=1"}

func serve() {
	type args struct {
		Name string `json:"name"`
	}
	sdk.Serve(sdk.Plugin{Name: "greeter", Version: "1.0.0", Tools: []sdk.Tool{
		sdk.NewTool(sdk.Definition{Name: "greet", Description: "Greet a person.", Traits: sdk.Traits{ReadOnly: true}},
			func(_ context.Context, _ *sdk.Call, in args) (*sdk.Result, error) {
				return sdk.Text("Hello, " + in.Name), nil
			}),
	}})
}
