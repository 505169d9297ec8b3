package changeset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/branch/checkpoint"
)

// TestAdvise checks the texts that users see of the errors of branches: which commands they name, and where.
func TestAdvise(t *testing.T) {
	conflicts := make([]change.Change, branch.MaxConflicts+2)
	for i := range conflicts {
		conflicts[i] = change.Change{Path: "f", Conflict: "the workspace changed it, too"}
	}
	store := &branch.Store{Dir: t.TempDir()}
	_, missing := store.Find("", "/w", "nosuch")
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, `the workspace /w has no branch "nosuch". See toolhost branch list`},
		{&branch.IncompleteError{Name: "b"}, "can be incomplete. Look at them with toolhost branch diff b, and then run toolhost branch accept b"},
		{&branch.ConflictError{Name: "b", Conflicts: conflicts[:1]}, "\n  f: the workspace changed it, too\nFor each path, choose the side that is kept: toolhost branch apply b --ours PATH (the branch) or --theirs PATH (the workspace)"},
		{&branch.ConflictError{Name: "b", Conflicts: conflicts}, "\n  and 2 more; for a list, run: toolhost branch diff b --stat\nFor each path"},
		{&branch.UnchangedError{Name: "b", Path: "f"}, "the branch b does not change f. See toolhost branch diff b; a new directory can only be applied as a whole"},
		{&branch.ContraryError{Path: "f"}, "f is both in --ours and in --theirs"},
		{&branch.WholeError{Name: "preview-1", Of: "b"}, "so it is applied as a whole: toolhost branch apply preview-1"},
		{&branch.ChangedError{Name: "preview-1"}, "drop this preview: toolhost branch discard preview-1"},
		{&branch.HeldError{Name: "preview-1"}, "drop the preview: toolhost branch discard preview-1"},
		{&branch.UnaskedError{Name: "b"}, "confirmed the changes. Apply the branch with the tool for branches, which asks, or ask the operator: toolhost branch apply b"},
		{&checkpoint.NotFoundError{Branch: "b", Number: 3}, "the branch b has no checkpoint 3. See toolhost branch checkpoints b"},
	} {
		// The advice follows its error, also within other errors, and is given once.
		other := errors.New("something else")
		got := Advise(Advise(errors.Join(fmt.Errorf("before: %w", c.err), other)))
		if text := got.Error(); !strings.Contains(text, c.want) || !strings.HasSuffix(text, "\nsomething else") || !strings.HasPrefix(text, "before: ") {
			t.Errorf("%q lacks %q", text, c.want)
		} else if strings.Count(text, "toolhost branch") > strings.Count(c.want, "toolhost branch")+1 || !errors.Is(got, c.err) || !errors.Is(got, other) {
			t.Errorf("%q has its advice twice, or does not wrap its errors", text)
		}
		if strings.Contains(c.err.Error(), "toolhost") {
			t.Errorf("the library itself says %q", c.err)
		}
	}
	if err := errors.New("x"); !errors.Is(Advise(err), err) || Advise(nil) != nil {
		t.Error("an error without advice does not stay as it is")
	}
}
