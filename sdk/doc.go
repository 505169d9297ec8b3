// Package sdk implements plugins for toolhost. A plugin is a program whose main function calls
// [Serve]. [NewTool] creates the tools that the plugin serves:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name: "hello", Version: "1.0.0",
//			Tools: []sdk.Tool{sdk.NewTool(sdk.Definition{
//				Name: "hello", Description: "Greet somebody.",
//			}, hello)},
//		})
//	}
//
//	type helloArgs struct {
//		Name string `json:"name" jsonschema:"whom to greet"`
//	}
//
//	func hello(ctx context.Context, call *sdk.Call, in helloArgs) (*sdk.Result, error) {
//		return sdk.Text("Hello, " + in.Name), nil
//	}
//
// These rules hold:
//
//   - The input schema is inferred from the struct; see [SchemaFor]. The host validates the
//     arguments and fills in the defaults before the handler is called.
//   - A handler gets typed arguments and a [Call]. The methods of the call give access to the
//     session's files ([Call.Workspace]), report progress and output, and ask questions.
//   - An error that a handler returns becomes the error of the call. Use [Errorf] to choose the kind
//     of error. If a handler panics, only its call fails.
//   - Standard output is reserved for the connection to the host. Serve first redirects file
//     descriptor 1 to standard error. After that, the plugin can print.
//
// Test handlers in process with package tooltest, and the binary with package
// tooltest/conformance.
package sdk
