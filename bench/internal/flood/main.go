// Command flood is a plugin whose tool writes much output, as fast as the output is read.
package main

import (
	"bytes"
	"context"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type arguments struct {
	Bytes int `json:"bytes" description:"Number of bytes to write"`
}

func main() {
	sdk.Serve(sdk.Plugin{
		Name: "flood", Version: "0.1.0",
		Tools: []sdk.Tool{sdk.NewTool(sdk.Definition{
			// The tool must not be declared as read-only: read-only calls share a stream, which drops output that is
			// not read in time.
			Name: "flood", Description: "Write much output.",
		}, flood)},
	})
}

func flood(ctx context.Context, call *sdk.Call, a arguments) (*sdk.Result, error) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for left := a.Bytes; left > 0 && ctx.Err() == nil; left -= len(chunk) {
		call.Output(tool.Stdout, chunk[:min(left, len(chunk))])
	}
	return sdk.Text("done"), ctx.Err()
}
