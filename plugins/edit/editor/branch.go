package editor

import (
	"context"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type branchArgs struct {
	Action     string   `json:"action,omitempty" enum:"diff,list,checkpoint,checkpoints,restore,apply,discard" default:"diff" jsonschema:"diff shows what the branch changes; restore goes back to a checkpoint; apply makes the changes in the workspace, all or none; discard drops them. A person decides about apply and discard."`
	Name       string   `json:"name,omitempty" jsonschema:"The branch; by default that of the session."`
	Paths      []string `json:"paths,omitempty" jsonschema:"Only these paths, for diff and apply."`
	Ours       []string `json:"ours,omitempty" jsonschema:"Paths with a conflict that get the content of the branch."`
	Theirs     []string `json:"theirs,omitempty" jsonschema:"Paths that keep the content of the workspace."`
	Checkpoint int      `json:"checkpoint,omitempty" jsonschema:"Where restore goes back to; by default the last one."`
	Message    string   `json:"message,omitempty" jsonschema:"Describes a checkpoint."`
	StopJobs   bool     `json:"stop_jobs,omitempty" jsonschema:"apply ends the background jobs of the branch."`
}

// branchTool returns the tool branch. The host answers its calls, because no plugin has access to branches.
func (e *editor) branchTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "branch",
		Role:        tool.RoleBranch,
		Description: "Review branches: layers over the workspace that keep what a session changes until somebody applies it.",
		Keywords:    []string{"checkpoint", "discard", "try", "experiment", "isolated", "layer"},
		Category:    tool.CategoryBuiltin,
		Traits:      sdk.Traits{Dangerous: true, Disabled: true}, // most agents work in no branch, and each definition costs them tokens
		Examples: []string{
			"branch list", "branch diff", "branch diff fix1 --paths src", "branch checkpoint --message 'tests pass'", "branch restore 3", "branch apply fix1",
		},
	}, func(context.Context, *sdk.Call, branchArgs) (*sdk.Result, error) {
		return nil, sdk.Errorf(tool.Unavailable, "This call cannot use branches: it runs in a preview, or the host has no state directory. See the problems in toolhost status.")
	})
}
