package call

import "toolhost.dev/sdk/tool"

// Checkpoints makes checkpoints of a branch and goes back to them.
type Checkpoints interface {
	// Before makes a checkpoint before a call that can change files. It returns a note for the caller if that was not
	// possible.
	Before(call, command string) (note string)
	// Undo goes back. It returns nil if the tool undo itself is to answer.
	Undo(u Undo) *tool.Result
}

// Undo contains the arguments of the tool undo.
type Undo struct {
	FilePath string `json:"file_path"`
	Steps    int    `json:"steps"`
	Action   string `json:"action"`
	To       string `json:"to"`
}
