package call

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/sandbox/execgate"
)

// Confinement is what the sandbox of a plugin does for calls. The argument "roots" has the roots of the session. The
// argument "printed" is the output of the call. It is safe for concurrent use.
type Confinement interface {
	// Watch prepares the sandbox for a call by an owner. The function "after" must be called after the call. It returns
	// messages about the files that it removed from the workspace. It can be nil.
	Watch(owner string, roots []tool.Root) (after func() []string, err error)
	// Programs begins to record and judge the programs that a call executes. The argument "token" is the token of the
	// call's commands. The result is nil if the plugin has no exec gate.
	Programs(ctx context.Context, owner string, roots []tool.Root, token string, judge execgate.Judge) *execgate.Call
	// Gated reports whether the exec gate judges each program of the plugin when it is executed. If so, the programs
	// need not be judged before the call.
	Gated(roots []tool.Root) bool
	// Temporary returns the temporary directory of a session as the plugin sees it. A root without a path means that
	// the plugin does not see it.
	Temporary(now tool.Root) tool.Root
	// TemporaryLimit returns how many bytes the directory can contain while a call runs. Zero means no limit.
	TemporaryLimit() uint64
	// Denied returns the accesses that the sandbox denied after a time.
	Denied(roots []tool.Root, since time.Time, printed string) []string
	// Exceeded returns the limits that a call reached.
	Exceeded(roots []tool.Root, printed string, failed bool) []string
	// Hint explains a failure of a command that the sandbox caused. It returns "" if the sandbox is probably not the
	// cause.
	Hint(roots []tool.Root, e Ended) string
	// Weaker describes restrictions that the sandbox does not enforce, although another backend can. It returns "" if
	// no such restriction exists.
	Weaker(roots []tool.Root) string
}

// Ended describes the end of a command of a plugin.
type Ended struct {
	Command string
	// Printed is the standard error. If the streams cannot be separated, Printed is the whole output.
	Printed  string
	Exit     int
	TimedOut bool
}

// Unconfined is the [Confinement] of a plugin without a sandbox. It has no effect.
type Unconfined struct{}

// Watch implements [Confinement].
func (Unconfined) Watch(string, []tool.Root) (func() []string, error) { return nil, nil }

// Programs implements [Confinement].
func (Unconfined) Programs(context.Context, string, []tool.Root, string, execgate.Judge) *execgate.Call {
	return nil
}

// Gated implements [Confinement].
func (Unconfined) Gated([]tool.Root) bool { return false }

// Temporary implements [Confinement].
func (Unconfined) Temporary(now tool.Root) tool.Root { return now }

// TemporaryLimit implements [Confinement].
func (Unconfined) TemporaryLimit() uint64 { return 0 }

// Denied implements [Confinement].
func (Unconfined) Denied([]tool.Root, time.Time, string) []string { return nil }

// Exceeded implements [Confinement].
func (Unconfined) Exceeded([]tool.Root, string, bool) []string { return nil }

// Hint implements [Confinement].
func (Unconfined) Hint([]tool.Root, Ended) string { return "" }

// Weaker implements [Confinement].
func (Unconfined) Weaker([]tool.Root) string { return "" }
