package call

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// Branches implements the tool branch.
type Branches interface {
	Branch(ctx context.Context, a BranchArguments, r Review) *tool.Result
}

// BranchArguments contains the arguments of the tool "branch".
type BranchArguments struct {
	Action     string   `json:"action"`
	Name       string   `json:"name"`
	Paths      []string `json:"paths"`
	Ours       []string `json:"ours"`
	Theirs     []string `json:"theirs"`
	Message    string   `json:"message"`
	Checkpoint int      `json:"checkpoint"`
	StopJobs   bool     `json:"stop_jobs"`
}

// Review connects a call of the tool "branch" with the policy and with the people who decide about the call.
type Review struct {
	// Peer passes permission requests to the policy, which can pass them to a person.
	Peer policy.Asker
	// Reads returns an error if the session may not read a path.
	Reads func(path string) error
	// Inside reports whether this call was made by a command that another call runs. The other call then cannot end
	// before this call.
	Inside bool
}

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
	// Inside means that a running command called the tool. An undo would change files while that command still uses
	// them.
	Inside bool `json:"-"`
}

// Preview is a branch in which one call runs, so that a person can see the changes of the call before they are applied.
type Preview interface {
	// Session returns the session of the call in the branch.
	Session() Session
	// End ends all processes of the call. It returns the changes of the call, as text for a person.
	End() (Shown, error)
	// Apply makes exactly those changes that End returned. The arguments describe the call, for undo. Apply returns
	// messages for the caller. If the error is not nil, nothing was changed.
	Apply(id, command string) ([]string, error)
	// Drop discards the branch. It does nothing after Apply.
	Drop()
}

// Shown describes the changes in a preview for a person.
type Shown struct {
	// Diff is the diff of all changes. It is short enough for a permission request, and lists every deleted and every
	// replaced path.
	Diff    string
	Changes int
	// Token is the name of the preview. An operator can use it as the name of a branch.
	Token string
}
