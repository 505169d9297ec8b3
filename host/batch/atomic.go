package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// Outcomes of an atomic batch.
const (
	// Applied means that all requests succeeded, and that their changes were made in the workspace.
	Applied = "applied"
	// Discarded means that a request failed, and that nothing was changed.
	Discarded = "discarded"
	// Kept means that all requests succeeded, but that their changes could not be made in the workspace. The changes
	// remain in the branch.
	Kept = "kept"
)

// Atomic describes the end of an atomic batch.
type Atomic struct {
	// Outcome is Applied, Discarded or Kept.
	Outcome string `json:"outcome"`
	// Branch is the name of the branch in which the batch ran. The branch only remains if the outcome is Kept.
	Branch string `json:"branch"`
	// Changes lists what was changed in the workspace.
	Changes []host.BranchChange `json:"changes"`
	// Notes are messages for people, for example about files that were not applied.
	Notes []string `json:"notes,omitempty"`
	// FailedLine is the number of the first line that failed, or 0.
	FailedLine int `json:"failed_line,omitempty"`
	// Error is the reason why the changes were not made. It is nil if they were made.
	Error *tool.Error `json:"error,omitempty"`
}

// RunAtomic runs a stream of requests like Run, one after the other, in a new branch and a copy of the session. If all
// requests succeed, their changes are made in the workspace in one step. If a request fails, the workspace does not
// change, and later requests do not run. RunAtomic returns an error if the requests cannot be read, the results cannot
// be written, or ctx is canceled. In these cases, the changes are discarded.
func (p Batch) RunAtomic(ctx context.Context, in io.Reader, out io.Writer) (*Atomic, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // the error is ignored, because Read always succeeds
	name := host.AtomicPrefix + hex.EncodeToString(random[:])
	p.Request.From, p.Request.Session, p.Request.Branch = p.Request.Session, name, name
	p.UntilFailure = true
	err := p.Run(ctx, in, out)
	last := context.WithoutCancel(ctx)
	a := &Atomic{Outcome: Discarded, Branch: name, Changes: []host.BranchChange{}}
	if failed := (*FailedError)(nil); errors.As(err, &failed) {
		a.FailedLine, a.Error, err = failed.Line, tool.Errorf(tool.Canceled, "Nothing was changed, because line %d failed.", failed.Line).From(tool.SourceHost), nil
		return a, errors.Join(err, p.discard(last))
	}
	if err != nil {
		return nil, errors.Join(err, p.discard(last))
	}
	done, err := p.Host.ApplyBranch(last, p.Request, host.BranchSelection{StopJobs: true})
	if missing := (*host.BranchNotFoundError)(nil); errors.As(err, &missing) { // without requests, there is no branch
		a.Outcome = Applied
		return a, nil
	}
	if err != nil {
		a.Outcome, a.Error = Kept,
			tool.Errorf(tool.Conflict, "Nothing was changed in the workspace: %s. The changes stay in the branch %s; see toolhost branch diff %[2]s.", strings.TrimRight(tool.AsError(err).Message, "."), name).From(tool.SourceHost)
		return a, nil
	}
	a.Outcome, a.Changes, a.Notes = Applied, done.Changes, done.Notes
	for i := range done.Left {
		a.Notes = append(a.Notes,
			fmt.Sprintf("%s was not applied: %s.", done.Left[i].Path, cmp.Or(done.Left[i].Never, done.Left[i].Waits)))
	}
	return a, nil
}

func (p Batch) discard(ctx context.Context) error {
	err := p.Host.DiscardBranch(ctx, p.Request)
	if missing := (*host.BranchNotFoundError)(nil); errors.As(err, &missing) {
		return nil
	}
	return err
}

// Line returns the outcome as the last line of a batch: {"id":null,"success":…,"atomic":{…}}.
func (a *Atomic) Line() []byte {
	text, _ := json.Marshal(map[string]any{
		"id": nil, "success": a.Outcome == Applied, "output": nil, "error": a.Error, "atomic": a,
	}) // the error is ignored, because these values can always be encoded
	return append(text, '\n')
}
