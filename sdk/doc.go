// Package sdk implements plugins for toolhost. A plugin is a program whose main function calls
// [Serve] with tools that [NewTool] made:
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
//   - A handler gets typed arguments and a [Call]. Through the call it accesses the session's files
//     ([Call.Workspace]), reports progress and output, and asks questions.
//   - An error that a handler returns becomes the error of the call. Use [Errorf] to choose its
//     kind. A panic in a handler fails that call only.
//   - Standard output belongs to the connection. Serve redirects file descriptor 1 to standard
//     error before anything else, so a plugin may print after that.
//
// Test handlers in process with package tooltest, and the binary with package
// tooltest/conformance.
package sdk
