package call

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// Checkpoints makes and restores checkpoints of a branch.
type Checkpoints interface {
	// Before makes a checkpoint before a call that can change files. If the checkpoint could not be made, Before
	// returns a note for the caller.
	Before(call, command string) (note string)
	// Undo restores a checkpoint. It returns nil if the plugin must run the call.
	Undo(ctx context.Context, u Undo) *tool.Result
}

// Undo contains the arguments of the tool that undoes changes.
type Undo struct {
	FilePath string `json:"file_path"`
	Steps    int    `json:"steps"`
	Action   string `json:"action"`
	To       string `json:"to"`
	// Name is the name of the tool, for messages. Empty means "undo".
	Name string `json:"-"`
	// Inside means that a running command called the tool. An undo would change files while that command still uses them.
	Inside bool `json:"-"`
}
