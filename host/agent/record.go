package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/agent/internal/agentfile"
	"toolhost.dev/host/internal/ownfile"
)

// record describes the changes of a setup. It is also the backup of the changed files.
type record struct {
	Files []recorded `json:"files"`
	// Tokens lists the ids of the tokens that were created for the agent.
	Tokens []string `json:"tokens,omitempty"`
}

// recorded describes one changed file.
type recorded struct {
	Path string `json:"path"`
	// Before is the content before the first setup. It is nil if another program edited the file between two setups.
	// Existed reports whether the file existed before the first setup. After is the SHA-256 of the content that the
	// last setup wrote.
	Before  []byte      `json:"before"`
	Whole   bool        `json:"whole"`
	Existed bool        `json:"existed"`
	After   string      `json:"after"`
	Ops     []operation `json:"ops"`
}

// Store stores the records of setups in a directory of the user.
type Store struct{ Dir string }

// file returns the file that stores the record of an agent and a place.
func (s Store) file(a *Agent, p *Place) ownfile.File {
	sum := sha256.Sum256([]byte(p.base() + "\x00" + p.Server))
	return ownfile.File{
		Path: filepath.Join(s.Dir, a.Name+"-"+hex.EncodeToString(sum[:8])+".json"), Name: "the record of the set-up",
	}
}

// Backup returns the path of the file that contains the earlier content of the settings.
func (s Store) Backup(p *Plan) string { return s.file(p.Agent, p.Place).Path }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Write first stores a backup of the files and then writes the changes of a plan. If a file changed after the plan was
// created, Write changes nothing and returns an error.
func (s Store) Write(p *Plan) error {
	for _, c := range p.Changes {
		if err := c.unchanged(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	f := s.file(p.Agent, p.Place)
	err := f.Change(func() (any, error) {
		r := new(record)
		if err := f.Read(r); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w; remove it", f.Path, err)
		}
		for _, c := range p.Changes {
			r.remember(c)
		}
		if r.Tokens = nil; p.token != nil && *p.token != "" {
			r.Tokens = []string{*p.token}
		}
		return r, nil
	})
	if err != nil {
		return err
	}
	for _, c := range p.Changes {
		if err := c.write(p.Place.Project); err != nil {
			return err
		}
	}
	return nil
}

// remember adds a change to the record. It keeps the content before the first change, which [Store.Undo] restores.
func (r *record) remember(c *Change) {
	i := slices.IndexFunc(r.Files, func(f recorded) bool { return f.Path == c.Path })
	if i < 0 {
		r.Files = append(r.Files, recorded{
			Path: c.Path, Before: c.Before, Whole: true, Existed: c.Existed, After: digest(c.After), Ops: c.ops,
		})
		return
	}
	f := &r.Files[i]
	if f.After != digest(c.Before) { // another program edited the file after the last change
		f.Before, f.Whole = nil, false
	}
	f.After = digest(c.After)
	for _, op := range c.ops {
		same := func(o operation) bool { return o.Item == op.Item && slices.Equal(o.Path, op.Path) }
		if k := slices.IndexFunc(f.Ops, same); k >= 0 {
			f.Ops[k].Value = op.Value
		} else {
			f.Ops = append(f.Ops, op)
		}
	}
}

// unchanged returns an error if the file changed after the plan was created, or if the file is read-only. A read-only
// file can be protected or generated. Without this check, the write would replace it, because it renames a new file.
func (c *Change) unchanged() error {
	if c.Existed && c.mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only; make it writable with chmod u+w, or change it where it is generated", c.Path)
	}
	now, err := os.ReadFile(c.target)
	if errors.Is(err, fs.ErrNotExist) && !c.Existed {
		return nil
	}
	if err == nil && (!c.Existed || !bytes.Equal(now, c.Before)) {
		err = errors.New("another program changed it meanwhile")
	}
	if err != nil {
		return fmt.Errorf("%s was not written: %w; run the command again", c.Path, err)
	}
	return nil
}

// write writes the new content to the target of the path. If After is nil, it removes the file.
func (c *Change) write(project bool) error {
	if err := c.unchanged(); err != nil {
		return err
	}
	if c.After == nil {
		return os.Remove(c.target)
	}
	dirMode := fs.FileMode(0o700)
	if project {
		dirMode = 0o755
		if !c.Existed {
			c.mode = 0o644
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.target), dirMode); err != nil {
		return err
	}
	if err := durable.ReplaceMode(c.target, c.After, c.mode); err != nil {
		return fmt.Errorf("%s was not written: %w", c.Path, err)
	}
	return nil
}

// Earlier describes what earlier setups of an agent wrote.
type Earlier struct {
	// URLs lists the addresses of the server in the settings. Tokens lists the ids of the tokens that were created.
	URLs, Tokens []string
}

// Earlier returns what earlier setups wrote for a place. It returns a zero value if there was no earlier setup.
func (s Store) Earlier(a *Agent, p *Place) (out Earlier, err error) {
	r, f := new(record), s.file(a, p)
	if err := f.Read(r); err != nil {
		return out, fmt.Errorf("%s cannot be read: %w; remove it", f.Path, err)
	}
	for _, file := range r.Files {
		for _, op := range file.Ops {
			if entry, ok := op.Value.(map[string]any); ok {
				if url, ok := entry["url"].(string); ok {
					out.URLs = append(out.URLs, url)
				}
			}
		}
	}
	out.Tokens = r.Tokens
	return out, nil
}

// Undo returns a plan that undoes the setup of an agent. If nobody edited a file after the setup, the plan restores the
// earlier content. Otherwise the plan removes only the changes of the setup.
func (s Store) Undo(a *Agent, p *Place) (*Plan, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r, f := new(record), s.file(a, p)
	if err := f.Read(r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", f.Path, err)
	}
	out := &Plan{Agent: a, Place: p}
	for i := range r.Files {
		c, err := readChange(r.Files[i].Path)
		if err != nil {
			return nil, err
		}
		if !c.Existed {
			continue
		}
		if err := r.Files[i].restore(c); err != nil {
			return nil, err
		}
		if !bytes.Equal(c.Before, c.After) || c.After == nil {
			out.Changes = append(out.Changes, c)
		} else if len(r.Files[i].Ops) == 0 {
			out.Notes = append(out.Notes, c.Path+" was edited since and stays.")
		}
	}
	return out, nil
}

func (f *recorded) restore(c *Change) error {
	if f.Whole && digest(c.Before) == f.After {
		if c.After = f.Before; !f.Existed {
			c.After = nil
		} else if c.After == nil {
			c.After = []byte{}
		}
		return nil
	}
	if len(f.Ops) == 0 {
		return nil
	}
	d, err := agentfile.Parse(c.Path, c.Before)
	if err != nil {
		return err
	}
	for _, op := range slices.Backward(f.Ops) {
		if err := op.undo(d); err != nil {
			return err
		}
	}
	c.After = d.Bytes()
	return nil
}

// undo undoes an edit. It keeps a value that was changed after the edit.
func (op *operation) undo(d agentfile.Document) error {
	if op.Item != "" {
		return d.Remove(op.Item, op.Path...)
	}
	now, ok := d.Get(op.Path...)
	_, object := op.Value.(map[string]any)
	switch {
	case !ok || !object && !agentfile.Same(now, op.Value):
		return nil
	case op.Had:
		return replace(d, op.Before, op.Path...)
	}
	return d.Delete(op.Path...)
}

// Restore writes a plan from [Store.Undo] and removes the record.
func (s Store) Restore(p *Plan) error {
	for _, c := range p.Changes {
		if err := c.unchanged(); err != nil {
			return err
		}
	}
	for _, c := range p.Changes {
		if err := c.write(p.Place.Project); err != nil {
			return err
		}
	}
	if err := os.Remove(s.Backup(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
