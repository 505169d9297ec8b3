package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// host calls the plugin as the host does: arguments checked and completed.
type host struct {
	t       testing.TB
	plugin  tool.Plugin
	schemas map[string]*tool.Schema
	cwd     string
	roots   []tool.Root
}

func newHost(t testing.TB, entries ...string) *host {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	p, err := sdk.New(Plugin())
	must(t, err)
	d, err := p.Describe(t.Context())
	must(t, err)
	h := &host{t: t, plugin: p, schemas: make(map[string]*tool.Schema), cwd: dir, roots: []tool.Root{{Path: dir, Writable: true}}}
	for _, def := range d.Tools {
		h.schemas[def.Name], err = tool.ParseSchema(def.Input)
		must(t, err)
	}
	for _, e := range entries {
		if name, target, ok := strings.Cut(e, " -> "); ok {
			must(t, os.Symlink(target, h.path(name)))
			continue
		}
		name, content, _ := strings.Cut(e, "=")
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(h.path(name), 0o777))
			continue
		}
		h.write(name, content)
	}
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *host) path(name string) string { return filepath.Join(h.cwd, name) }

func (h *host) write(name, content string) {
	h.t.Helper()
	must(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o777))
	must(h.t, os.WriteFile(h.path(name), []byte(content), 0o666))
}

type args map[string]any

func (h *host) call(name string, a args) *tool.Result {
	h.t.Helper()
	raw := make(map[string]json.RawMessage)
	for k, v := range a {
		raw[k] = sdk.Data(v)
	}
	complete, bad := h.schemas[name].Check(raw)
	if len(bad) > 0 {
		return tool.Failed(tool.Errorf(tool.InvalidArguments, "%s", bad[0].Message))
	}
	return h.plugin.Call(h.t.Context(), &tool.Call{ID: "1", Tool: name, Arguments: sdk.Data(complete), Cwd: h.cwd, Roots: h.roots}, nil)
}

// read calls read and expects it to work.
func (h *host) read(a args) (string, readData, *tool.Result) {
	h.t.Helper()
	res := h.call("read", a)
	if res.Error != nil {
		h.t.Fatalf("read %v: %v", a, res.Error)
	}
	var d readData
	must(h.t, json.Unmarshal(res.Data, &d))
	return res.Output, d, res
}

// refuses expects a failure of a kind, with all of the words in its message.
func (h *host) refuses(name string, a args, kind tool.Kind, words ...string) {
	h.t.Helper()
	res := h.call(name, a)
	if res.Error == nil {
		h.t.Errorf("%s %v: no error, but %.200q", name, a, res.Output)
		return
	}
	if res.Error.Kind != kind {
		h.t.Errorf("%s %v: kind %s, want %s: %s", name, a, res.Error.Kind, kind, res.Error)
	}
	for _, w := range words {
		if !strings.Contains(res.Error.Message, w) {
			h.t.Errorf("%s %v: the message lacks %q: %s", name, a, w, res.Error)
		}
	}
}
