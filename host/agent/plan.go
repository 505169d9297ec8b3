package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/agent/internal/agentfile"
)

// maxSettings is the maximum size of a settings file, in bytes.
const maxSettings = 64 << 20

// Plan is a set of changes to the settings of an agent.
type Plan struct {
	Agent  *Agent
	Place  *Place
	Target *Target
	// Changes lists the files that must change. It is empty if the settings are already correct.
	Changes []*Change
	// Notes lists facts and steps that a person must know.
	Notes []string

	token *string // the id of a new token
}

// Change is a change of one file.
type Change struct {
	// Path is the path that the agent reads. If Path is a symbolic link, the change applies to the target of the link.
	Path          string
	Before, After []byte
	// Existed reports whether the file existed before the change.
	Existed bool

	target string
	mode   fs.FileMode
	ops    []operation
}

// operation describes one edit of a file. It contains the data that is needed to undo the edit.
type operation struct {
	// Path is the path of the key. Item is the item that was added to the list at this key. An empty Item means that
	// the key itself was set.
	Path []string `json:"path"`
	Item string   `json:"item,omitempty"`
	// Value is the new value of the key. If Had is true, Before is the earlier value.
	Value  any  `json:"value,omitempty"`
	Before any  `json:"before,omitempty"`
	Had    bool `json:"had,omitempty"`
}

// Plan returns the changes that make the agent use the target as its server.
func (a *Agent) Plan(p *Place, t *Target) (*Plan, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	out := &Plan{Target: t, Agent: a, Place: p, Notes: slices.Clone(a.Notes)}
	for _, s := range a.files(p) {
		c, err := readChange(s.path)
		if err != nil {
			return nil, err
		}
		if p.Project && !inside(p.Dir, c.target) { // a link in a cloned repository can lead to another directory
			return nil, fmt.Errorf("%s is a link out of the project, to %s; remove the link, or set up that directory", c.Path, c.target)
		}
		if err := out.edit(c, s); err != nil {
			return nil, err
		}
		out.add(c)
	}
	return out, nil
}

func (p *Plan) add(c *Change) {
	if c.After != nil && (!c.Existed || !bytes.Equal(c.Before, c.After)) {
		p.Changes = append(p.Changes, c)
	}
}

// Propose adds a new file with the given content. It does nothing if the file exists.
func (p *Plan) Propose(path string, content []byte) error {
	c, err := readChange(path)
	if err != nil || c.Existed {
		return err
	}
	c.After = content
	p.add(c)
	return nil
}

// readChange reads a file for a change. It follows symbolic links, even if the target does not exist yet.
func readChange(path string) (*Change, error) {
	target, err := follow(path)
	if err != nil {
		return nil, err
	}
	c := &Change{Path: path, target: target, mode: 0o600}
	f, err := os.OpenFile(target, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the settings cannot be read: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; move it away", path)
	case st.Size() > maxSettings:
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxSettings>>20)
	}
	c.Existed, c.mode = true, st.Mode().Perm()
	if c.Before, err = os.ReadFile(target); err != nil {
		return nil, err
	}
	c.After = c.Before
	return c, nil
}

// follow returns the target of a path after all symbolic links are followed.
func follow(path string) (string, error) {
	for range 40 {
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // it is not a link
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return "", fmt.Errorf("%s is a chain of too many symbolic links; correct the link", path)
}

// inside reports whether a file is in a directory after all symbolic links are followed. The file need
// not exist.
func inside(dir, path string) bool {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		parent := filepath.Dir(path)
		resolved, err := filepath.EvalSymlinks(parent)
		if err == nil {
			return tool.Within(root, resolved)
		}
		if parent == path || !errors.Is(err, fs.ErrNotExist) {
			return false
		}
		path = parent
	}
}

// edit changes the content of a file according to the required settings.
func (p *Plan) edit(c *Change, s settings) error {
	d, err := agentfile.Parse(c.Path, c.Before)
	if err != nil {
		return err
	}
	if s.servers != nil {
		if err := p.server(c, d, s); err != nil {
			return err
		}
	}
	for _, a := range s.sets {
		was, had := d.Get(a.path...)
		if had && (a.soft || agentfile.Same(was, a.value)) {
			if a.soft && !agentfile.Same(was, a.value) {
				p.Notes = append(p.Notes,
					fmt.Sprintf("%s has %s = %v, which stays.", c.Path, strings.Join(a.path, "."), was))
			}
			continue
		}
		if err := d.Set(a.value, a.path...); err != nil {
			return err
		}
		c.ops = append(c.ops, operation{Path: a.path, Value: a.value, Before: was, Had: had})
	}
	for _, a := range s.adds {
		for _, item := range a.items {
			list, _ := d.Get(a.path...)
			if items, ok := list.([]any); ok && slices.Contains(items, any(item)) {
				continue
			}
			if err := d.Add(item, a.path...); err != nil {
				return err
			}
			c.ops = append(c.ops, operation{Path: a.path, Item: item})
		}
	}
	if len(c.ops) > 0 {
		c.After = d.Bytes()
	}
	return nil
}

// commandOf returns the command of a server together with the arguments. It returns nil for a server without a command.
func commandOf(entry map[string]any) []string {
	var out []string
	for _, key := range []string{"command", "args"} {
		switch v := entry[key].(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, item := range v {
				text, ok := item.(string)
				if !ok {
					return nil
				}
				out = append(out, text)
			}
		}
	}
	return out
}

// sameProgram reports whether a command starts the program self.
func sameProgram(command, self string) bool {
	found, err := exec.LookPath(command)
	if err != nil {
		return false
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(self)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
