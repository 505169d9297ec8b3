package editor_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

// FuzzUndo makes a random sequence of writes, edits, undos and redos. Each undo or redo applies to the session or to
// a single file. After each call, FuzzUndo compares all files and their modes with a model.
func FuzzUndo(f *testing.F) {
	f.Add([]byte("\x00\x11\x22\x40\x80\x40\x80\x00\x91\x40\x40\x40\x40\x80\x80"))
	f.Add([]byte("\x05\x45\x05\x16\x46\x46\x86\x86\x27\x4f\x8f"))
	f.Add([]byte("\xc0\xca\xd5\xc1\xcb\x64\x6c\x74\xa4\xac\xb4\x41\x81"))
	f.Add([]byte("\x00\x08\x64\x10\x40\xa4\x80\x40\x40"))
	f.Fuzz(random)
}

// TestUndoAtRandom runs the check of FuzzUndo with fixed sequences.
func TestUndoAtRandom(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 0))
		script := make([]byte, 5+rng.IntN(36))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { random(t, script) })
	}
}

func random(t *testing.T, script []byte) {
	h, dir := session(t, nil)
	m := &model{h: h, dir: dir}
	for i, name := range names {
		if len(script) > 0 && int(script[0])>>i&1 == 1 {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, path, contents[int(script[0])%len(contents)])
			if err := os.Chmod(path, 0o751); err != nil {
				t.Fatal(err)
			}
			know(t, h, path)
		}
	}
	m.files = m.look(t)
	first := m.files
	for i, b := range script[:min(len(script), 40)] {
		m.step(t, b, i)
	}
	m.move(t, "undo", "", len(m.done)) // undo all changes
	if now := m.look(t); !maps.Equal(now, first) {
		t.Fatalf("all the way back the files are\n%v, want\n%v", now, first)
	}
}

var (
	names    = []string{"f", "d/g", "d/e/h"}
	contents = []string{"a\n", "", "a\r\nb\r\n", "\xef\xbb\xbfx\na", "\xff\xfea\x00\n\x00", "caf\xe9 a\n", "a a a", "\ra"}
)

// model contains the expected history and the expected contents of the files.
type model struct {
	h     *tooltest.Host
	dir   string
	files map[string]string
	// The last element of each list is the next change to undo or redo.
	done, undone []modelChange
}

type modelChange struct{ name, before, after string }

func (m *model) step(t *testing.T, b byte, i int) {
	name := names[int(b>>3)%3]
	only := ""
	if b&4 != 0 {
		only = name
	}
	switch b >> 6 {
	case 0:
		m.change(t, name, "write", args{"content": fmt.Sprintf("%s%d", contents[int(b)%2], i), "mode": []string{"overwrite", "append"}[int(b>>2)%2]})
	case 1:
		m.move(t, "undo", only, 1+int(b)%3)
	case 2:
		m.move(t, "redo", only, 1+int(b)%3)
	case 3:
		m.change(t, name, "edit", args{"old_string": "a", "new_string": fmt.Sprintf("b%da", i), "replace_all": true})
	}
}

// change calls a tool and updates the model. A change that is refused or has no effect does not update the model.
func (m *model) change(t *testing.T, name, toolName string, in args) {
	in["file_path"] = name
	res := m.h.Call(toolName, in)
	now := m.look(t)
	if maps.Equal(now, m.files) {
		return
	}
	if !res.Success() {
		t.Fatalf("%s %v failed and changed something: %v", toolName, in, res.Error)
	}
	m.done = append(m.done, modelChange{name, m.files[name], now[name]})
	m.undone = slices.DeleteFunc(m.undone, func(c modelChange) bool { return c.name == name })
	m.files = now
}

// move undoes or redoes the requested number of changes. If one change fails, no change is undone or redone.
func (m *model) move(t *testing.T, toolName, only string, steps int) {
	t.Helper()
	if steps == 0 {
		return
	}
	from, to := &m.done, &m.undone
	if toolName == "redo" {
		from, to = to, from
	}
	var at []int // indices of the affected changes, starting with the last change
	for i, c := range slices.Backward(*from) {
		if len(at) < steps && (only == "" || c.name == only) {
			at = append(at, i)
		}
	}
	in := args{"steps": steps}
	if only != "" {
		in["file_path"] = only
	}
	res := m.h.Call(toolName, in)
	if possible := len(at) == steps; possible != res.Success() || !possible && res.Error.Kind != tool.NotFound {
		t.Fatalf("%s %v with %v done and %v undone: %q %v", toolName, in, m.done, m.undone, res.Output, res.Error)
	}
	if res.Success() {
		m.files = maps.Clone(m.files)
		for _, i := range at {
			c := (*from)[i]
			*from = slices.Delete(*from, i, i+1)
			*to = append(*to, c)
			text := c.before
			if toolName == "redo" {
				text = c.after
			}
			if m.files[c.name] = text; text == "" {
				delete(m.files, c.name)
			}
		}
	}
	if now := m.look(t); !maps.Equal(now, m.files) {
		t.Fatalf("%s %v left\n%v, want\n%v", toolName, in, now, m.files)
	}
}

// look returns the contents and modes of all files. It fails the test if the directory contains anything except
// these files.
func (m *model) look(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(m.dir, path)
		out[name] = fmt.Sprintf("%v %q", info.Mode(), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
