package tooltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Path returns the absolute path of a file in the working directory.
func (h *Host) Path(name string) string { return filepath.Join(h.Cwd, name) }

// Files creates files in the working directory. It also creates missing directories. Each entry is "name=content",
// "directory/" or "name -> target of a symbolic link".
func (h *Host) Files(entries ...string) {
	h.t.Helper()
	for _, e := range entries {
		if err := h.file(e); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *Host) file(entry string) error {
	name, content, isFile := strings.Cut(entry, "=")
	link, target, isLink := strings.Cut(entry, " -> ")
	switch {
	case isLink && (!isFile || len(link) < len(name)):
		return os.Symlink(target, h.Path(link))
	case !isFile && strings.HasSuffix(name, "/"):
		return os.MkdirAll(h.Path(name), 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(h.Path(name)), 0o750); err != nil {
		return err
	}
	return os.WriteFile(h.Path(name), []byte(content), 0o600)
}

// Do calls a tool and expects success. It returns the output, the structured data and the whole result.
func Do[Data any](h *Host, name string, args map[string]any) (output string, data Data, res *tool.Result) {
	h.t.Helper()
	res = h.Call(name, args)
	if res.Error != nil {
		h.t.Fatalf("%s %v: %v", name, args, res.Error)
	}
	if len(res.Data) > 0 {
		if err := json.Unmarshal(res.Data, &data); err != nil {
			h.t.Fatalf("%s %v: the data %.200s: %v", name, args, res.Data, err)
		}
	}
	return res.Output, data, res
}

// Refuses calls a tool and expects an error of the given kind. The message must contain all words.
func (h *Host) Refuses(name string, args map[string]any, kind tool.Kind, words ...string) {
	h.t.Helper()
	res := h.Call(name, args)
	if res.Error == nil {
		h.t.Errorf("%s %v: no error, but %.200q", name, args, res.Output)
		return
	}
	if res.Error.Kind != kind {
		h.t.Errorf("%s %v: kind %s, want %s: %s", name, args, res.Error.Kind, kind, res.Error)
	}
	for _, w := range words {
		if !strings.Contains(res.Error.Message, w) {
			h.t.Errorf("%s %v: the message lacks %q: %s", name, args, w, res.Error)
		}
	}
}
