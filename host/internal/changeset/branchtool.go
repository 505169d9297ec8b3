package changeset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/call"
)

// BranchTool runs calls of the tool "branch" for one session. It is safe for concurrent use.
type BranchTool struct {
	Mounts  *branch.Mounts
	Session call.Session
	// Undo restores checkpoints of the session's branch. It is nil if the session works in no branch.
	Undo *Checkpoints
	// Changes performs the operations on the branches of the session's workspace.
	Changes *Set
	// Release unmounts a branch in all hosts. The argument "own" is the number of the caller's own calls in the branch.
	// If keepJobs is true and jobs run in the branch, Release returns an error.
	Release func(ctx context.Context, b *branch.Branch, own int, keepJobs bool) error
	// Refuses returns an error if the principal of the session may not apply or discard a branch.
	Refuses func(b *branch.Branch) error
	// Denied reports whether the configuration keeps all tools from reading a path, or from writing it.
	Denied func(path string, write bool) bool
	// Changed is called after the workspace changed.
	Changed func()
}

// These are the maximum sizes of a diff in a result and of a diff in a permission request, in bytes.
const (
	resultDiff = 64 << 10
	askDiff    = 32 << 10
)

// KindBranch is the kind of permission that applying or discarding a branch needs.
const KindBranch = string(tool.RoleBranch)

// toolData is the structured result of the tool.
type toolData struct {
	Action string `json:"action"`
	Branch string `json:"branch,omitempty"`
	// Branches is set by the action "list".
	Branches []listed `json:"branches,omitzero"`
	// Changes lists the changes of the branch, or the changes that were applied. Diff shows them as a diff.
	Changes []change.Change `json:"changes,omitzero"`
	Diff    string          `json:"diff,omitempty"`
	// GivenUp, Left and Notes have the same meaning as in [branch.Outcome].
	GivenUp []change.Change `json:"given_up,omitempty"`
	Left    []change.Change `json:"left,omitempty"`
	Notes   []string        `json:"notes,omitempty"`
	// Checkpoints lists all checkpoints after the action "checkpoints", and the new checkpoint after the action
	// "checkpoint".
	Checkpoints []branch.Checkpoint `json:"checkpoints,omitzero"`
}

// listed describes a branch. Own means that the session works in this branch.
type listed struct {
	branch.Info
	Own bool `json:"own"`
}

func result(title, output string, d *toolData) *tool.Result {
	text, _ := json.Marshal(d) // the error is ignored, because these values can always be encoded
	return &tool.Result{Title: title, Output: output, Data: text}
}

func refused(kind tool.Kind, format string, a ...any) *tool.Result {
	return call.Refused(tool.Errorf(kind, format, a...))
}

// Branch implements [call.Branches].
func (t *BranchTool) Branch(ctx context.Context, a call.BranchArguments, r call.Review) *tool.Result {
	if a.Action == tool.ActionList {
		return t.list()
	}
	b, own, err := t.find(a.Name)
	switch a.Action {
	case "checkpoint", "checkpoints", "restore":
		if n, numeric := strconv.Atoi(a.Name); a.Action == "restore" && numeric == nil && a.Checkpoint == 0 {
			a.Checkpoint, b, own, err = n, t.own(), true, nil
		}
		if err == nil && (!own || t.Undo == nil) {
			name := "NAME"
			if b != nil {
				name = b.Name
			}
			return refused(tool.InvalidArguments, "An agent makes and restores checkpoints only in the branch of its own session. Call this tool in the branch, or ask the operator: toolhost branch %s %s.", a.Action, name)
		}
	}
	if err != nil {
		return call.Refused(err)
	}
	if r.Inside && a.Action != "diff" && a.Action != "checkpoints" {
		return refused(tool.Conflict, "A command that runs in a branch cannot change the branch below itself. Nothing was done. Make branch %s a call of its own.", a.Action)
	}
	switch a.Action {
	case "checkpoint":
		return t.checkpoint(b, a.Message)
	case "checkpoints":
		return t.checkpoints(b)
	case "restore":
		return t.restore(ctx, b, a.Checkpoint)
	case "apply":
		return t.apply(ctx, b, own, a, r)
	case "discard":
		return t.discard(ctx, b, own, r)
	}
	return t.diff(b, a.Paths, r)
}

// own returns the branch of the session, or nil.
func (t *BranchTool) own() *branch.Branch {
	if t.Undo == nil {
		return nil
	}
	return t.Undo.Mount.Branch
}

// find returns a branch of the session's principal and workspace, and reports whether the session works in this branch.
func (t *BranchTool) find(name string) (b *branch.Branch, own bool, err error) {
	b = t.own()
	if b != nil && (name == "" || name == b.Name) {
		return b, true, nil
	}
	if name == "" {
		return nil, false, tool.Errorf(tool.InvalidArguments, "This session works in the workspace itself and not in a branch, so name one: branch diff NAME. To see all: branch list.")
	}
	if b, err = t.Mounts.Store.Find(t.Session.Principal.Owner(), t.Session.Workspace, name); err != nil {
		return nil, false, tool.Errorf(tool.NotFound, "%w.", Advise(err))
	}
	return b, false, nil
}

func (t *BranchTool) list() *tool.Result {
	all, err := t.Mounts.Store.List()
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	out := &toolData{Action: tool.ActionList, Branches: []listed{}}
	var text strings.Builder
	for _, b := range all {
		if b.Owner != t.Session.Principal.Owner() || b.Base != t.Session.Workspace {
			continue
		}
		info := listed{Info(b), b.Name == t.Session.Branch}
		out.Branches = append(out.Branches, info)
		state := "ready to apply"
		switch {
		case info.Problem != "":
			state = info.Problem
		case info.Conflicts > 0:
			state = "conflicts with the workspace at " + count(info.Conflicts, "path")
		case info.Files == 0:
			state = "no changes"
		}
		if info.Own {
			state += " (the branch of this session)"
		}
		fmt.Fprintf(&text, "%s  %s, %s, %s\n", info.Name, count(info.Files, "path"),
			time.Since(info.Created).Round(time.Second), state)
	}
	if len(out.Branches) == 0 {
		text.WriteString("The workspace has no branches.\n")
	}
	return result("Branches of the workspace", text.String(), out)
}

// visible removes the changes that the session may not read, and returns a line for each removed change.
func (t *BranchTool) visible(b *branch.Branch, changes []change.Change,
	r call.Review) (shown []change.Change, hidden string) {
	var lines strings.Builder
	for _, c := range changes {
		below := b.Below(&c)
		i := slices.IndexFunc(below, func(rel string) bool {
			return t.Denied(filepath.Join(t.Session.Workspace, rel), false) ||
				r.Reads(filepath.Join(t.Session.Top(), rel)) != nil
		})
		if i >= 0 {
			fmt.Fprintf(&lines, "# %s [not shown, because this session may not read %s]\n", change.Describe(c), change.QuotePath(below[i]))
			continue
		}
		shown = append(shown, c)
	}
	return shown, lines.String()
}

// shortDiff returns changes as a diff. It omits the changes that the session may not read.
func (t *BranchTool) shortDiff(b *branch.Branch, changes []change.Change, limit int, r call.Review) (string, error) {
	shown, hidden := t.visible(b, changes, r)
	text, err := b.ShortDiff(shown, limit)
	return hidden + text, err
}

func (t *BranchTool) diff(b *branch.Branch, paths []string, r call.Review) *tool.Result {
	changes, text, err := t.changes(b, paths, resultDiff, r)
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	if len(changes) == 0 {
		text = "The branch " + b.Name + " changes nothing there.\n"
	}
	return result("Changes of the branch "+b.Name, text, &toolData{
		Action: "diff", Branch: b.Name, Changes: changes, Diff: text,
	})
}

// changes returns the changes of a branch at the given paths.
func (t *BranchTool) changes(b *branch.Branch, paths []string, limit int,
	r call.Review) ([]change.Change, string, error) {
	changes, err := b.Changes()
	if err != nil {
		return nil, "", Advise(err)
	}
	relative, err := t.relative(paths)
	if err != nil {
		return nil, "", err
	}
	changes = change.Select(changes, relative...)
	text, err := t.shortDiff(b, changes, limit, r)
	return changes, text, err
}

// relative converts paths to paths relative to the workspace. It treats a path that is already relative as relative to
// the workspace.
func (t *BranchTool) relative(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, path := range paths {
		out[i] = filepath.Clean(path)
		if filepath.IsAbs(path) {
			rel, err := filepath.Rel(t.Session.Top(), path)
			if err != nil || !filepath.IsLocal(rel) {
				return nil, fmt.Errorf("%s is not in the workspace %s", path, t.Session.Top())
			}
			out[i] = rel
		}
	}
	return out, nil
}

func (t *BranchTool) checkpoint(b *branch.Branch, message string) *tool.Result {
	rules := CheckpointRules(t.Undo.Settings())
	rules.Keep, rules.Bytes = 0, 0 // no limits, because a requested checkpoint is always kept
	c, err := t.Mounts.Checkpoint(b.ID(), 1, message, rules)
	if used := (*branch.BusyError)(nil); errors.As(err, &used) {
		return refused(tool.Conflict, "No checkpoint was made, because %w.", err)
	}
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	text := fmt.Sprintf("Checkpoint %d of the branch %s was made. To go back to it: branch restore %[1]d\n", c.Number, b.Name)
	return result("Checkpoint "+strconv.Itoa(c.Number), text, &toolData{
		Action: "checkpoint", Branch: b.Name, Checkpoints: []branch.Checkpoint{*c},
	})
}

func (t *BranchTool) checkpoints(b *branch.Branch) *tool.Result {
	all, err := b.Checkpoints()
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	var text strings.Builder
	for _, c := range all {
		fmt.Fprintf(&text, "%d  %s  %s\n", c.Number, c.At.Local().Format(time.DateTime), c.Message)
	}
	if len(all) == 0 {
		text.WriteString("The branch " + b.Name + " has no checkpoints.\n")
	}
	return result("Checkpoints of the branch "+b.Name, text.String(), &toolData{
		Action: "checkpoints", Branch: b.Name, Checkpoints: append([]branch.Checkpoint{}, all...),
	})
}

func (t *BranchTool) restore(ctx context.Context, b *branch.Branch, number int) *tool.Result {
	if number == 0 {
		all, err := b.Checkpoints()
		if err != nil || len(all) == 0 {
			return refused(tool.NotFound, "The branch %s has no checkpoint. Make one before the next changes: branch checkpoint.", b.Name)
		}
		number = all[len(all)-1].Number
	}
	return t.Undo.Undo(ctx, call.Undo{To: strconv.Itoa(number), Action: string(tool.RoleUndo)})
}
