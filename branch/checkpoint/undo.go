package checkpoint

import (
	"fmt"
	"slices"
	"strconv"
)

// Undoable returns the checkpoint to which an undo goes back. If the argument "to" is a call or the number of a
// checkpoint, this is the checkpoint before the call. Otherwise it is the checkpoint before the last calls that changed
// the branch; the argument "steps" is the number of these calls. The second result lists the calls that would be
// undone, the last one first.
func (s *Set) Undoable(to string, steps int, rules Rules) (*Checkpoint, []Checkpoint, error) {
	all, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	if to != "" {
		i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Call == to || strconv.Itoa(c.Number) == to })
		if i < 0 {
			return nil, nil, fmt.Errorf("the branch %s has no checkpoint before a call %q", s.Branch, to)
		}
		return &all[i], s.calls(all[i:], rules), nil
	}
	calls := s.calls(all, rules)
	if steps > len(calls) {
		return nil, calls, nil
	}
	return &calls[steps-1], calls[:steps], nil
}

// calls returns the calls that changed something and are not yet undone, the last one first.
func (s *Set) calls(all []Checkpoint, rules Rules) []Checkpoint {
	out := []Checkpoint{}
	for i := range slices.Backward(all) {
		if c := all[i]; c.Call != "" && !c.Undone {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return out
	}
	if last, err := s.Manifest(out[0].Number); err == nil {
		if t, err := s.compare(last, rules); err == nil && t.same {
			out = out[1:] // the last call changed nothing
		}
	}
	return out
}
