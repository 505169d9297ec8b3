package control

// Operations that a host supports.
const (
	OpReload = "reload"
	OpPlan   = "plan"
	OpStatus = "status"
	OpEnable = "enable"
	OpStats  = "stats"
	OpRenew  = "renew"

	OpRollback = "rollback"
	OpRollout  = "rollout"

	// OpReleaseBranch ends the processes of a branch and unmounts it, so that another process can use it.
	OpReleaseBranch = "release-branch"
	// OpCheckpoint makes a checkpoint of a branch that the host has mounted, and OpRestore restores one. Programs keep
	// running. The answer is null if the branch is not mounted.
	OpCheckpoint = "checkpoint-branch"
	OpRestore    = "restore-branch"
	OpTakeOver   = "take-over"
	// OpFleet carries out an operation on the fleet of the host.
	OpFleet   = "fleet"
	OpConsole = "console"

	// OpSupervises reports whether people can answer asks of other hosts through this host. OpAsks lists the open asks
	// of a host, and OpAnswer answers one.
	OpSupervises = "supervises"
	OpAsks       = "asks"
	OpAnswer     = "answer"
)

// TakeOverArgs contains the arguments of OpTakeOver: the address of the socket that the client wants to acquire, and
// the path of a Unix socket on which the client receives the descriptor.
type TakeOverArgs struct {
	Address string `json:"address"`
	Socket  string `json:"socket"`
}

// ReleaseBranchArgs contains the arguments of OpReleaseBranch: the id and the name of the branch. If KeepJobs is true
// and jobs run in the branch, the answer is an error.
type ReleaseBranchArgs struct {
	ID, Name string
	KeepJobs bool
}

// CheckpointArgs contains the arguments of OpCheckpoint and OpRestore: the id of the branch, and whether files that git
// ignores are left out. Message describes a new checkpoint. Number is the checkpoint that OpRestore restores.
type CheckpointArgs struct {
	ID, Message string
	Number      int
	SkipIgnored bool
}

// EnableArgs contains the arguments of OpEnable: the name of a tool or plugin, and whether to enable it.
type EnableArgs struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

// RolloutArgs contains the arguments of OpRollout: the name of a plugin, and the action.
type RolloutArgs struct {
	Plugin string `json:"plugin"`
	Action string `json:"action"`
}

// RollbackArgs contains the arguments of OpRollback: the id of a configuration in the history, or 0 for the last one
// that differs from the files.
type RollbackArgs struct {
	ID int64 `json:"id"`
}
