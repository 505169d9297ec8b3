package changeset

import (
	"fmt"
	"strings"

	"toolhost.dev/branch"
	"toolhost.dev/branch/checkpoint"
)

// Advise adds to an error of package branch which commands help. The library does not know these commands.
func Advise(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	visit(err, func(e error) {
		if c, contrary := e.(*branch.ContraryError); contrary { //nolint:errorlint // each error of the tree is visited
			text = strings.Replace(text, e.Error(), c.Path+" is both in --ours and in --theirs", 1)
		} else if more := advice(e); more != "" {
			text = strings.Replace(text, e.Error(), e.Error()+more, 1)
		}
	})
	if text == err.Error() {
		return err
	}
	return &advisedError{err, text}
}

// RestoreNotes returns sentences about the paths that a restore did not change, and the setting that stores them.
func RestoreNotes(r *branch.Restored) []string {
	notes := r.Notes()
	if len(notes) > 0 {
		notes = append(notes, "To store all that git ignores, the operator sets:\nworkspace {\n  checkpoints { ignored = true }\n}")
	}
	return notes
}

// Info describes a branch, with advice about its problem.
func Info(b *branch.Branch) branch.Info {
	info := b.Info()
	if info.Err != nil {
		info.Problem = Advise(info.Err).Error()
	}
	return info
}

// advisedError is an error whose text names commands.
type advisedError struct {
	error
	text string
}

func (e *advisedError) Error() string { return e.text }

func (e *advisedError) Unwrap() error { return e.error }

// visit calls a function for an error and for each error that it wraps, unless the text already has advice.
func visit(err error, do func(error)) {
	do(err)
	switch e := err.(type) { //nolint:errorlint // each error of the tree is visited
	case *advisedError:
	case interface{ Unwrap() error }:
		if below := e.Unwrap(); below != nil {
			visit(below, do)
		}
	case interface{ Unwrap() []error }:
		for _, below := range e.Unwrap() {
			visit(below, do)
		}
	}
}

// advice returns what a message about an error adds, or "".
func advice(err error) string {
	switch e := err.(type) { //nolint:errorlint // only of the error itself, as above
	case *branch.NotFoundError:
		if strings.HasSuffix(e.Error(), "?") {
			return " See toolhost branch list"
		}
		return ". See toolhost branch list"
	case *branch.IncompleteError:
		return fmt.Sprintf(". Look at them with toolhost branch diff %s, and then run toolhost branch accept %[1]s", e.Name)
	case *branch.ConflictError:
		list := ""
		if len(e.Conflicts) > branch.MaxConflicts {
			list = fmt.Sprintf("; for a list, run: toolhost branch diff %s --stat", e.Name)
		}
		return list + fmt.Sprintf("\nFor each path, choose the side that is kept: toolhost branch apply %s --ours PATH (the branch) or --theirs PATH (the workspace)", e.Name)
	case *branch.UnchangedError:
		return fmt.Sprintf(". See toolhost branch diff %s; a new directory can only be applied as a whole", e.Name)
	case *branch.WholeError:
		return ": toolhost branch apply " + e.Name
	case *branch.ChangedError:
		return ": toolhost branch discard " + e.Name
	case *branch.HeldError:
		return ": toolhost branch discard " + e.Name
	case *branch.UnaskedError:
		return ". Apply the branch with the tool for branches, which asks, or ask the operator: toolhost branch apply " + e.Name
	case *branch.PlaceError:
		return ": --state DIR"
	case *branch.TooLargeError:
		return ". The operator can raise the limit: workspace { limits { layer, files } }"
	case *checkpoint.NotFoundError:
		return ". See toolhost branch checkpoints " + e.Branch
	}
	return ""
}
