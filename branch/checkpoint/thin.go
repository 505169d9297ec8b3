package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// thin removes the oldest automatic checkpoints until the limits are met. If the other checkpoints alone exceed the
// limit of bytes, it instead removes the newest checkpoint and returns a [NoRoomError].
func (s *Set) thin(all []Checkpoint, rules Rules) error {
	n := 0
	for i := range all {
		if all[i].Automatic() {
			n++
		}
	}
	last := &all[len(all)-1]
	stored := last.Stored
	if rules.Bytes > 0 && stored > rules.Bytes {
		stored = s.stored() // measure again, because a killed process can have removed contents
	}
	for rules.Keep > 0 && n > rules.Keep || rules.Bytes > 0 && stored > rules.Bytes {
		i := slices.IndexFunc(all[:len(all)-1], func(c Checkpoint) bool { return c.Automatic() })
		if i < 0 && (rules.Bytes == 0 || stored <= rules.Bytes) {
			break
		}
		if i < 0 {
			*s.Newest = Newest{}
			_, err := s.forget(all, len(all)-1)
			return errors.Join(err, &NoRoomError{Limit: rules.Bytes})
		}
		freed, err := s.forget(all, i)
		if err != nil {
			return err
		}
		all, n, stored = slices.Delete(all, i, i+1), n-1, stored-freed
	}
	if last = &all[len(all)-1]; stored == last.Stored {
		return nil
	}
	last.Stored = stored
	return s.relabel(last)
}

// stored returns the size of all stored contents.
func (s *Set) stored() (size int64) {
	entries, _ := os.ReadDir(filepath.Join(s.Dir, Dir, objectsDir)) // ignore the error: the directory exists
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// forget removes a checkpoint and the contents that only this checkpoint uses. A checkpoint shares contents only with
// its neighbors, so only these are examined. forget returns the size of the removed contents.
func (s *Set) forget(all []Checkpoint, i int) (freed int64, err error) {
	gone, _ := s.Manifest(all[i].Number) // ignore the error: the contents of a damaged checkpoint are removed with the branch
	used := make(map[string]bool)
	for _, j := range []int{i - 1, i + 1} {
		if j < 0 || j >= len(all) {
			continue
		}
		others, err := s.Manifest(all[j].Number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		for k := range others {
			used[others[k].Object] = true
		}
	}
	if err := filetree.RemoveAll(s.path(all[i].Number)); err != nil {
		return 0, err
	}
	killpoint.Pass()
	for k := range gone {
		if name := gone[k].Object; name != "" && !used[name] {
			used[name] = true                     // several names of one file have the same content
			if os.Remove(s.object(name)) == nil { // if this fails, the content is removed with the branch
				freed += gone[k].Size
			}
		}
	}
	return freed, nil
}
