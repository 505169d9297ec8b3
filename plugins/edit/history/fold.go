package history

import "fmt"

// GapError means that another program changed a file between two changes of the session. These two changes cannot be
// undone or redone together.
type GapError struct {
	Path   string
	Change *Change
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s was changed by another program in addition to change %d (%s)", e.Path, e.Change.ID, e.Change.Title)
}

// Fold combines several changes into one change. It undoes the changes, starting with the last. If again is true, Fold
// redoes the changes in the given order. For each file, Fold returns the expected current version and the resulting
// version.
func Fold(changes []*Change, again bool) ([]File, error) {
	var net []File
	at := make(map[string]int)
	for _, c := range changes {
		for _, f := range c.Files {
			from, to := f.After, f.Before
			if again {
				from, to = to, from
			}
			i, seen := at[f.Path]
			if !seen {
				at[f.Path] = len(net)
				net = append(net, File{Path: f.Path, Before: from, After: to})
				continue
			}
			if !net[i].After.Same(from) {
				return nil, &GapError{f.Path, c}
			}
			if to.Exists && to.Attributes == nil { // attributes are stored only by a change that removes a file
				if to.Attributes = net[i].After.Attributes; !to.Same(net[i].After) {
					to.Attributes = to.Attributes.OfOtherContent()
				}
			}
			net[i].After = to
		}
	}
	return net, nil
}
