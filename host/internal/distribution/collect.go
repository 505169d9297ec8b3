package distribution

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"toolhost.dev/host/internal/store"
	"toolhost.dev/host/internal/trust"
)

// Collected describes what [Collect] removed.
type Collected struct {
	// Removed and Kept are the numbers of versions. InUse is the number of versions that running hosts still use.
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
	InUse   int `json:"in_use"`
}

// Collect removes the versions that no lock file needs. It keeps what an existing lock file names, the
// version before each of these, and what a running host uses.
func Collect(s *store.Store) (*Collected, error) {
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
		case errors.Is(gone, fs.ErrNotExist):
			if err := s.Forget(r); err != nil {
				return nil, err
			}
			continue
		case err != nil: // nobody knows what it needs
			return nil, err
		}
		for _, pin := range lock.Plugins {
			used[pin.Platforms[trust.ThisPlatform()].Content] = true
		}
		for _, p := range lock.Packages {
			used[r.Trees[p.Lock]] = true
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
