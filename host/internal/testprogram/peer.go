package testprogram

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// Peer is the peer of a call whose events nobody sees.
type Peer struct{}

// Progress implements [tool.Peer].
func (Peer) Progress(string, map[string]any) {}

// Output implements [tool.Peer].
func (Peer) Output(tool.Stream, []byte) {}

// Ask implements [tool.Peer].
func (Peer) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk}, nil
}

// FileStates implements [tool.Peer].
func (Peer) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return map[string]tool.FileState{}, nil
}
