package branch

import "time"

// Info describes a branch.
type Info struct {
	// ID identifies the branch among all branches of the state directory.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Base     string    `json:"base"`
	Owner    string    `json:"owner,omitempty"`
	Created  time.Time `json:"created"`
	Sessions []string  `json:"sessions,omitempty"`
	// Files counts the changed paths, and Bytes is the size of the layer on disk.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Conflicts counts the changes that conflict with changes of the workspace.
	Conflicts int `json:"conflicts"`
	// Applied counts the applies that can be reverted.
	Applied int `json:"applied,omitempty"`
	// Problem is the reason why the branch cannot be used now.
	Problem string `json:"problem,omitempty"`
}

// Info reads the description of the branch.
func (b *Branch) Info() Info {
	info := Info{ID: b.ID(), Name: b.Name, Base: b.Base, Owner: b.Owner, Created: b.Created, Sessions: b.Sessions, Applied: b.Applied, Bytes: b.Bytes()}
	changes, err := b.Changes()
	if err != nil {
		info.Problem = err.Error()
	}
	for _, c := range changes {
		info.Files += 1 + c.Entries
		if c.Conflict != "" {
			info.Conflicts++
		}
	}
	return info
}
