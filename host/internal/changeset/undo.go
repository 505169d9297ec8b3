package changeset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
)

// Checkpoints implements [call.Checkpoints] for a session in a branch.
type Checkpoints struct {
	Mounts  *branch.Mounts
	Mount   *branch.Mount
	Session call.Session
	// Settings returns the current settings of checkpoints.
	Settings func() config.Checkpoints
	// Jobs describes the background jobs in the branch with an id.
	Jobs func(ctx context.Context, id string) []string
	// Changes has the operations on the branches of the session's workspace.
	Changes *Set
}

// CheckpointRules returns the rules for the checkpoints of a configuration.
func CheckpointRules(c config.Checkpoints) branch.CheckpointRules {
	return branch.CheckpointRules{Keep: c.Keep, Bytes: int64(min(c.Bytes, 1<<62)), SkipIgnored: !c.Ignored}
}

func (c *Checkpoints) rules() branch.CheckpointRules {
	return CheckpointRules(c.Settings())
}

// Before implements [call.Checkpoints].
func (c *Checkpoints) Before(id, command string) (note string) {
	_, err := c.Mount.Before(c.Session.ID, id, command, c.rules())
	room := (*branch.NoRoomError)(nil)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &room):
		return fmt.Sprintf("No checkpoint was made before this call, so undo cannot take it back: %v. The operator can raise the limit: workspace { checkpoints { bytes } }", err)
	}
	return fmt.Sprintf("No checkpoint was made before this call, so undo cannot take it back: %v", err)
}

// undone is the structured result of an undo in a branch.
type undone struct {
	Action string `json:"action"`
	Branch string `json:"branch"`
	// Calls lists the calls that were undone, or that can be undone, the last one first.
	Calls   []undoneCall    `json:"calls"`
	Changes []change.Change `json:"changes"`
	Diff    string          `json:"diff"`
	// Saved is the checkpoint of the branch before the undo.
	Saved int `json:"saved,omitempty"`
	// Jobs lists the jobs that still run after the undo.
	Jobs []string `json:"jobs,omitempty"`
	// Stay and Lost equal the fields of [branch.Restored] with these names.
	Stay []string `json:"stay,omitempty"`
	Lost []string `json:"lost,omitempty"`
}

type undoneCall struct {
	Call       string    `json:"call"`
	Checkpoint int       `json:"checkpoint"`
	At         time.Time `json:"at"`
	Command    string    `json:"command"`
	Session    string    `json:"session"`
	Own        bool      `json:"own"`
}

// undoDiff limits the size of the diff of an undo, in bytes.
const undoDiff = 16 << 10

// Undo implements [call.Checkpoints].
func (c *Checkpoints) Undo(ctx context.Context, u call.Undo) *tool.Result {
	u.Name = cmp.Or(u.Name, string(tool.RoleUndo))
	if u.FilePath == tool.ActionList && u.Action == string(tool.RoleUndo) {
		u.FilePath, u.Action = "", tool.ActionList
	}
	if u.FilePath != "" || u.Action == "clear" {
		return nil
	}
	b := c.Mount.Branch
	if u.Action == tool.ActionList {
		return c.list(b, u.Name)
	}
	if u.Inside && u.Action != "preview" {
		return call.Refused(tool.Errorf(tool.Conflict, "A command that runs in the branch %s cannot undo calls of the branch below itself. Nothing was done. Make %s a call of its own.", b.Name, u.Name))
	}
	to, calls, err := b.Undoable(u.To, max(1, u.Steps), c.rules())
	switch {
	case err != nil:
		return call.Refused(tool.Errorf(tool.NotFound, "%w. To see the calls that can be undone: %s list.", err, u.Name))
	case to == nil && len(calls) == 0:
		return call.Refused(tool.Errorf(tool.NotFound, "No call in the branch %s can be undone. Automatic checkpoints begin with the first call that can change files.", b.Name))
	case to == nil:
		return call.Refused(tool.Errorf(tool.NotFound, "Only %d calls in the branch %s can be undone. Nothing was done. Set fewer steps; see %s list.", len(calls), b.Name, u.Name))
	}
	if u.To == "" {
		for i := range calls {
			if calls[i].Session != c.Session.ID {
				return call.Refused(tool.Errorf(tool.Conflict, "The call %s (%s) of another session changed the branch, too. Nothing was done. To take it back as well: %s --to %s.", calls[i].Call, calls[i].Message, u.Name, to.Call))
			}
		}
	}
	out := &undone{Action: u.Action, Branch: b.Name, Calls: c.calls(calls)}
	if out.Changes, out.Diff, err = b.Preview(to.Number, c.rules(), undoDiff); err != nil {
		return call.Refused(tool.Errorf(tool.ExecutionFailed, "The checkpoint %d of the branch %s cannot be read: %w. Go back to another one, which toolhost branch checkpoints %[2]s lists.", to.Number, b.Name, err))
	}
	out.Changes = append([]change.Change{}, out.Changes...)
	if u.Action == "preview" {
		return &tool.Result{
			Title: "Preview of undo", Data: undoData(out), Output: fmt.Sprintf("Preview of undo for %s; nothing was changed.\n%s", titles(out.Calls), out.Diff),
		}
	}
	return c.goBack(ctx, b, to, out, u.Name)
}

// goBack restores a checkpoint. The argument "name" is the name of the tool. The programs of the branch keep running.
// It ends them only if none of them is a job and the changes are large.
func (c *Checkpoints) goBack(ctx context.Context, b *branch.Branch, to *branch.Checkpoint, out *undone,
	name string) *tool.Result {
	jobs := c.Jobs(ctx, b.ID())
	var done *branch.Restored
	var err error
	if len(jobs) == 0 && isLarge(out.Changes) && c.Mounts.ReleaseFor(b.ID(), 1) {
		done, err = c.Mounts.Store.Undo(b, to.Number, c.rules())
	} else {
		done, err = c.Mounts.Restore(b.ID(), 1, to.Number, true, c.rules())
	}
	if used := (*branch.BusyError)(nil); errors.As(err, &used) {
		return call.Refused(tool.Errorf(tool.Conflict, "Nothing was undone, because %w, and repeat %s.", err, name))
	}
	c.Changes.Record("(branch undo)", b.Name, len(out.Changes), err)
	if err != nil {
		return call.Refused(tool.Errorf(tool.ExecutionFailed, "%w.", Advise(err)))
	}
	out.Saved, out.Jobs = done.Saved.Number, []string{}
	var text strings.Builder
	fmt.Fprintf(&text, "Undid %s (%s). The branch is as it was before. To take this back: %s --to %d.\n", titles(out.Calls), plural(len(out.Changes), "change"), name, done.Saved.Number)
	switch {
	case done.Ended != "":
		fmt.Fprintf(&text, "The programs that still ran in the branch have ended, because the files could not be restored while they ran: %s.\n", done.Ended)
	case len(jobs) > 0:
		out.Jobs = jobs
		fmt.Fprintf(&text, "These jobs still run, and what they have open or in memory is not undone: %s.\n", strings.Join(jobs, "; "))
	}
	out.Stay, out.Lost = done.Stay, done.Lost
	for _, note := range RestoreNotes(done) {
		text.WriteString(note + "\n")
	}
	text.WriteString(out.Diff)
	return &tool.Result{Title: "Undo " + titles(out.Calls), Data: undoData(out), Output: text.String()}
}

// Limits of the changes that are written through the mount of a branch without a job. For larger changes, exchanging
// the layers is faster.
const (
	largePaths = 1000
	largeBytes = 16 << 20
)

func isLarge(changes []change.Change) bool {
	paths, bytes := 0, int64(0)
	for i := range changes {
		paths, bytes = paths+1+changes[i].Entries, bytes+changes[i].Size
	}
	return paths > largePaths || bytes > largeBytes
}

func (c *Checkpoints) list(b *branch.Branch, name string) *tool.Result {
	_, calls, err := b.Undoable("", 1<<30, c.rules())
	if err != nil {
		return call.Refused(tool.Errorf(tool.ExecutionFailed, "%w.", err))
	}
	out := &undone{Action: tool.ActionList, Branch: b.Name, Calls: c.calls(calls), Changes: []change.Change{}}
	var text strings.Builder
	for _, u := range out.Calls {
		other := ""
		if !u.Own {
			other = " (of another session)"
		}
		fmt.Fprintf(&text, "%s  %s  %s%s\n", u.Call, u.At.Local().Format(time.DateTime), u.Command, other)
	}
	if len(out.Calls) == 0 {
		text.WriteString("No call in the branch can be undone.\n")
	} else {
		fmt.Fprintf(&text, "%s takes back the first of these calls, and %[1]s --to CALL that call and all above it. Each one stands for all that it changed in the workspace, commands included.\n", name)
	}
	return &tool.Result{Title: "Calls that can be undone", Data: undoData(out), Output: text.String()}
}

func (c *Checkpoints) calls(all []branch.Checkpoint) []undoneCall {
	out := []undoneCall{}
	for i := range all {
		out = append(out, undoneCall{
			Call: all[i].Call, Checkpoint: all[i].Number, At: all[i].At,
			Command: strings.Join(append([]string{all[i].Message}, all[i].Then...), ", then "), Session: all[i].Session,
			Own: all[i].Session == c.Session.ID,
		})
	}
	return out
}

func undoData(out *undone) json.RawMessage {
	text, _ := json.Marshal(out) // the error is ignored, because these values can always be encoded
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// titles joins the commands of calls to one line.
func titles(calls []undoneCall) string {
	const shown = 3
	var names []string
	for _, u := range calls[:min(len(calls), shown)] {
		names = append(names, u.Command)
	}
	if more := len(calls) - shown; more > 0 {
		names = append(names, fmt.Sprintf("%d more calls", more))
	}
	if len(names) == 0 {
		return "to the checkpoint"
	}
	return strings.Join(names, ", ")
}
