package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"toolhost.dev/sdk/tool"
)

// hook makes the decision that the text in the arguments of a call requests.
func hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	var args struct{ Text string }
	_ = json.Unmarshal(in.Arguments, &args)
	if in.Event == tool.HookAfter {
		if in.Result.Success() && strings.Contains(args.Text, "whisper") {
			return &tool.HookAnswer{Result: &tool.Result{Output: strings.ToUpper(in.Result.Output)}}, nil
		}
		return nil, nil
	}
	switch {
	case strings.Contains(args.Text, "forbidden"):
		return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "the plugin forbids it"}, nil
	case strings.Contains(args.Text, "replace me"):
		return &tool.HookAnswer{Arguments: json.RawMessage(`{"text":"replaced by ` + in.Hook + `"}`)}, nil
	case strings.Contains(args.Text, "hang the hook"):
		<-ctx.Done()
		return nil, ctx.Err()
	case strings.Contains(args.Text, "kill the hook"):
		os.Exit(7)
	case strings.Contains(args.Text, "break the hook"):
		return nil, errors.New("it is broken")
	case strings.Contains(args.Text, "panic the hook"):
		panic("oh")
	}
	return nil, nil
}
