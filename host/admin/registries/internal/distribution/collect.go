package distribution

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// Collected describes what [Collect] removed.
type Collected struct {
	// Removed and Kept are the numbers of removed and kept versions. InUse is the number of versions that were not
	// removed because running hosts still use them.
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
	InUse   int `json:"in_use"`
}

// forgotten is the time for which the versions in a deleted lock file stay installed. It begins when a command last
// read the lock file.
const forgotten = 30 * 24 * time.Hour

// see records the versions that a lock file names.
func see(r *artifact.StoreRecord, lock *trust.Lock) {
	names := make(map[string]bool)
	for _, pin := range lock.Plugins {
		names[pin.Platforms[trust.ThisPlatform()].Content] = true
	}
	for _, p := range lock.Packages {
		names[r.Trees[p.Lock]] = true
	}
	delete(names, "")
	r.Seen, r.Names = time.Now().UTC().Truncate(time.Second), slices.Sorted(maps.Keys(names))
}

// Collect removes the versions that nobody needs. It keeps the versions in each lock file. It keeps the versions of a
// deleted lock file for 30 days after a command last read that file. For rollbacks, it also keeps the version of each
// plugin before its last upgrade. It also keeps the versions that running hosts use.
func Collect(s *artifact.Store) (*Collected, error) {
	unlock, err := s.LockAll()
	if err != nil {
		return nil, err
	}
	defer unlock()
	records, err := s.Records()
	if err != nil {
		return nil, err
	}
	used := make(map[string]bool)
	for _, r := range records {
		lock, err := trust.Read(r.Lock)
		_, gone := os.Stat(r.Lock)
		switch {
		case errors.Is(gone, fs.ErrNotExist) && time.Since(r.Seen) > forgotten:
			if err := s.Forget(r); err != nil {
				return nil, err
			}
			continue
		case errors.Is(gone, fs.ErrNotExist): // the lock file can be on a disk that is not mounted
		case err != nil: // the versions in the lock file are unknown
			return nil, err
		default:
			if err := s.Change(r.Lock, func(now *artifact.StoreRecord) { see(now, lock); r = now }); err != nil {
				return nil, err
			}
		}
		for _, content := range r.Names {
			used[content] = true
		}
		for _, raw := range r.Previous {
			var pin trust.Pin
			if json.Unmarshal(raw, &pin) == nil {
				used[pin.Platforms[trust.ThisPlatform()].Content] = true
			}
		}
	}
	contents, err := s.Contents()
	if err != nil {
		return nil, err
	}
	out := &Collected{}
	for _, c := range contents {
		if used[c] {
			out.Kept++
			continue
		}
		gone, err := s.Remove(c)
		if err != nil {
			return out, err
		}
		if gone {
			out.Removed++
		} else {
			out.InUse++
		}
	}
	return out, s.Sweep(true)
}
