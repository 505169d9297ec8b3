package conformance_test

import (
	"context"
	"os"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest/conformance"
)

// This is the complete conformance test of a plugin, which can be written in any language. The test runs the
// plugin's binary. Therefore, build the binary first.
func ExampleTest() {
	TestConformance := func(t *testing.T) {
		conformance.Test(t, conformance.Options{Binary: greeter, Env: greeterEnv})
	}
	start(TestConformance) // for a real test, the testing package calls TestConformance
}

var start func(test func(*testing.T))

func TestExampleTest(t *testing.T) {
	start = func(test func(*testing.T)) { t.Run("TestConformance", test) }
	ExampleTest()
}

// serveGreeter is an environment variable. If it is set, the test program is the plugin of the example.
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
