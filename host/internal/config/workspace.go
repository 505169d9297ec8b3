package config

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// ModeBranch is the value of [Workspace.Mode] with which each session works in a branch of its own.
const ModeBranch = "branch"

// Workspace holds the settings of the workspace block.
type Workspace struct {
	// Mode is "direct", [ModeBranch] or "require".
	Mode string
	// Backend is "auto", "overlay" or "copy".
	Backend     string
	Limits      BranchLimits
	Checkpoints Checkpoints
}

// BranchLimits limits branches.
type BranchLimits struct {
	// Layer is the maximum size, in bytes, of the changes in a branch. Files is the maximum number of files in these
	// changes.
	Layer uint64
	Files int
	// Age is the time after which a branch is removed if all its changes are applied.
	Age time.Duration
}

// Checkpoints configures the checkpoints of branches.
type Checkpoints struct {
	// Automatic makes a checkpoint before each call that can change files.
	Automatic bool
	// Keep is the maximum number of automatic checkpoints of a branch. Bytes is the maximum size of the data that all
	// checkpoints of a branch store.
	Keep  int
	Bytes uint64
	// Ignored means that checkpoints also store files that git ignores.
	Ignored bool
}

// DefaultWorkspace returns the settings without a workspace block.
func DefaultWorkspace() Workspace {
	return Workspace{
		Mode: "direct", Backend: "auto", Limits: BranchLimits{Layer: 10 << 30, Files: 500_000, Age: 14 * 24 * time.Hour},
		Checkpoints: Checkpoints{Automatic: true, Keep: 100, Bytes: 1 << 30},
	}
}

type workspaceHCL struct {
	Mode        hcl.Expression   `hcl:"mode,optional"`
	Backend     hcl.Expression   `hcl:"backend,optional"`
	Limits      *branchLimitsHCL `hcl:"limits,block"`
	Checkpoints *checkpointsHCL  `hcl:"checkpoints,block"`
}

type branchLimitsHCL struct {
	Layer hcl.Expression `hcl:"layer,optional"`
	Files hcl.Expression `hcl:"files,optional"`
	Age   hcl.Expression `hcl:"age,optional"`
}

type checkpointsHCL struct {
	Automatic *bool          `hcl:"automatic,optional"`
	Keep      hcl.Expression `hcl:"keep,optional"`
	Bytes     hcl.Expression `hcl:"bytes,optional"`
	Ignored   bool           `hcl:"ignored,optional"`
}

func (d *decoder) workspace(w *workspaceHCL) {
	out := &d.cfg.Workspace
	out.Mode = d.choice(w.Mode, out.Mode, "direct", ModeBranch, "require")
	out.Backend = d.choice(w.Backend, out.Backend, "auto", "overlay", "copy")
	if l := w.Limits; l != nil {
		if n := d.size(l.Layer); n > 0 {
			out.Limits.Layer = n
		}
		if given(l.Files) {
			out.Limits.Files = d.positive(l.Files, "The limit of files", "Write a whole number of at least 1.")
		}
		if given(l.Age) {
			out.Limits.Age = d.duration(l.Age)
		}
	}
	if c := w.Checkpoints; c != nil {
		if c.Automatic != nil {
			out.Checkpoints.Automatic = *c.Automatic
		}
		if given(c.Keep) {
			out.Checkpoints.Keep = d.positive(c.Keep, "The number of checkpoints", "Write a whole number of at least 1, or turn them off: automatic = false.")
		}
		if n := d.size(c.Bytes); n > 0 {
			out.Checkpoints.Bytes = n
		}
		out.Checkpoints.Ignored = c.Ignored
	}
}
