package changeset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
)

// apply makes the changes of a branch in the workspace. The rules about edits apply to each path. In addition, a person
// must agree to the apply, unless a rule allows the apply.
func (t *BranchTool) apply(ctx context.Context, b *branch.Branch, own bool, a call.BranchArguments,
	r call.Review) *tool.Result {
	if err := t.Refuses(b); err != nil {
		return call.Refused(err)
	}
	sel := branch.Selection{}
	for from, to := range map[*[]string]*[]string{&a.Paths: &sel.Paths, &a.Ours: &sel.Ours, &a.Theirs: &sel.Theirs} {
		relative, err := t.relative(*from)
		if err != nil {
			return refused(tool.InvalidArguments, "%w.", err)
		}
		*to = relative
	}
	if b.Held { // the person has that question already
		return refused(tool.PermissionDenied, "Nothing was applied: %w.", Advise(&branch.HeldError{Name: b.Name}))
	}
	var err error
	if sel.Shown, err = b.Review(); err != nil {
		return refused(tool.ExecutionFailed, "%w.", Advise(err))
	}
	changes, diff, err := t.changes(b, selected(&sel), askDiff, r)
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	if len(changes) == 0 {
		return result("Nothing to apply", "The branch "+b.Name+" has nothing to apply.\n", &toolData{
			Action: "apply", Branch: b.Name, Changes: []change.Change{},
		})
	}
	if err := t.permit(ctx, b, changes, r); err != nil {
		return call.Refused(err)
	}
	if err := t.askToApply(ctx, b, changes, diff, r); err != nil {
		return call.Refused(err)
	}
	sel.Allowed = true
	if err := t.release(ctx, b, own, !a.StopJobs); err != nil {
		return refused(tool.Conflict, "%w.", err)
	}
	out, err := t.Changes.Apply(b, sel)
	t.Changed()
	if conflict := (*branch.ConflictError)(nil); errors.As(err, &conflict) {
		return refused(tool.Conflict, "%w. In a call of this tool: branch apply --ours PATH or --theirs PATH.", err)
	}
	if errors.Is(err, branch.ErrNotAsShown) {
		return refused(tool.Conflict, "Nothing was applied: while a person decided, something changed in the branch %s, or in the files of the workspace that it changes. Apply the branch again.", b.Name)
	}
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	return result("Apply "+b.Name, applied(b, out), &toolData{
		Action: "apply", Branch: b.Name, Changes: out.Changes, GivenUp: out.GivenUp, Left: out.Left, Notes: out.Notes,
	})
}

// Confirm asks a person whether the selected changes of a branch may be made in the workspace. If the person agrees,
// the selection allows exactly the changes that were shown.
func (t *BranchTool) Confirm(ctx context.Context, b *branch.Branch, sel *branch.Selection,
	asker policy.Asker) (err error) {
	if sel.Shown, err = b.Review(); err != nil {
		return Advise(err)
	}
	r := call.Review{Peer: asker, Reads: func(string) error { return nil }} // the person may see everything that is not denied
	changes, diff, err := t.changes(b, selected(sel), askDiff, r)
	if err != nil {
		return err
	}
	sel.Allowed = true
	return t.askToApply(ctx, b, changes, diff, r)
}

func (t *BranchTool) askToApply(ctx context.Context, b *branch.Branch, changes []change.Change, diff string,
	r call.Review) error {
	title := fmt.Sprintf("Make %s of the branch %s in the workspace?", count(len(changes), "change"), b.Name)
	return t.ask(ctx, "apply", title, b, changes, diff, r)
}

// selected returns the paths of a selection. If the result is empty, everything is selected.
func selected(sel *branch.Selection) []string {
	if len(sel.Paths) == 0 {
		return nil
	}
	return slices.Concat(sel.Paths, sel.Ours, sel.Theirs)
}

func applied(b *branch.Branch, out *branch.Outcome) string {
	var text strings.Builder
	for _, c := range out.Changes {
		fmt.Fprintln(&text, change.Describe(c))
	}
	fmt.Fprintf(&text, "Applied %s of the branch %s.\n", count(len(out.Changes), "change"), b.Name)
	for _, c := range out.GivenUp {
		fmt.Fprintf(&text, "The workspace is kept: %s\n", change.Describe(c))
	}
	for _, c := range out.Left {
		fmt.Fprintf(&text, "Left in the branch: %s\n", change.Describe(c))
	}
	for _, note := range out.Notes {
		fmt.Fprintln(&text, note)
	}
	fmt.Fprintf(&text, "To undo the apply, the operator can run: toolhost branch revert %s\n", b.Name)
	return text.String()
}

// permit applies the rules about edits to all paths that an apply changes.
func (t *BranchTool) permit(ctx context.Context, b *branch.Branch, changes []change.Change, r call.Review) error {
	var paths []string
	for i := range changes {
		if changes[i].Never != "" {
			continue
		}
		for _, rel := range b.Below(&changes[i]) {
			if t.Denied(filepath.Join(t.Session.Workspace, rel), true) {
				return tool.Errorf(tool.PermissionDenied, "Nothing was applied, because the configuration keeps all tools from changing %s (the paths block inside the permissions block). Apply the other paths (branch apply --paths PATH), or ask the operator: toolhost branch apply %s.", rel, b.Name)
			}
			paths = append(paths, filepath.Join(t.Session.Top(), rel))
		}
	}
	answer, err := r.Peer.Ask(ctx, tool.Ask{
		Permission: &tool.Permission{
			Kind: tool.PermissionEdit, Title: "Apply the branch " + b.Name + " to the workspace?", Patterns: paths,
		},
	})
	if err != nil {
		return err
	}
	if answer.Outcome != tool.Accepted {
		return tool.Errorf(tool.PermissionDenied, "Nothing was applied, because the branch %s changes a path that this session may not change in the workspace: %s. Apply the other paths (branch apply --paths PATH), or ask the operator: toolhost branch apply %[1]s.", b.Name, reason(answer))
	}
	return nil
}

// reason returns why a request was not accepted.
func reason(a tool.Answer) string {
	return cmp.Or(strings.TrimSuffix(a.Message, "."), "the request was "+string(a.Outcome))
}

// ask asks a person whether a branch may be applied or discarded, unless a rule decides this.
func (t *BranchTool) ask(ctx context.Context, action, title string, b *branch.Branch, changes []change.Change,
	diff string, r call.Review) error {
	answer, err := r.Peer.Ask(ctx, tool.Ask{Permission: &tool.Permission{
		Kind: KindBranch, Title: title, Patterns: []string{action + " " + b.Name},
		Metadata: map[string]any{"diff": diff, "changes": len(changes)},
	}})
	if err != nil {
		return err
	}
	never := len(answer.Values) > 0 && answer.Values[0] == policy.Never
	if answer.Outcome != tool.Accepted || never {
		why := reason(answer)
		if never {
			why = "the answer was never"
		}
		return tool.Errorf(tool.PermissionDenied, "Nothing was done: whether to %s a branch is decided by a person, and %s. The operator can do it (toolhost branch %[1]s %[3]s), or allow it in the permissions with a rule with kind = [%[4]q].", action, why, b.Name, KindBranch)
	}
	return nil
}

func (t *BranchTool) release(ctx context.Context, b *branch.Branch, own, keepJobs bool) error {
	calls := 0
	if own {
		calls = 1
	}
	return t.Release(ctx, b, calls, keepJobs)
}

func (t *BranchTool) discard(ctx context.Context, b *branch.Branch, own bool, r call.Review) *tool.Result {
	if err := t.Refuses(b); err != nil {
		return call.Refused(err)
	}
	changes, diff, err := t.changes(b, nil, askDiff, r)
	if err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	if err := t.ask(ctx, "discard", fmt.Sprintf("Drop the branch %s with %s?", b.Name, count(len(changes), "change")),
		b, changes, diff, r); err != nil {
		return call.Refused(err)
	}
	if err := t.release(ctx, b, own, false); err != nil {
		return refused(tool.Conflict, "%w.", err)
	}
	if err := t.Changes.Discard(b); err != nil {
		return refused(tool.ExecutionFailed, "%w.", err)
	}
	text := fmt.Sprintf("The branch %s was discarded, and the workspace is as it was.", b.Name)
	if own {
		text += " The next call of this session begins a new one."
	}
	return result("Discard "+b.Name, text+"\n", &toolData{Action: "discard", Branch: b.Name, Changes: changes})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
