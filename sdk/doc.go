// Package sdk is what a plugin author imports. A plugin is a program whose main
// calls [Serve]:
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
// The input schema is inferred from the struct (see [SchemaFor]). A handler gets
// typed arguments and a [Call], through which it reaches the session's files and
// talks to the host: progress, output as it comes, questions. An error it returns
// becomes the call's error; use [Errorf] to choose its kind. A panic in a handler
// fails that call and no other.
//
// Standard output belongs to the connection: Serve moves file descriptor 1 to
// standard error before anything else, so printing is safe after that.
package sdk
