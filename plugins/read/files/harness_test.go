package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

// host is a session with the plugin in a new directory.
type host struct {
	*tooltest.Host
	t testing.TB
}

// newHost makes files first: "name=content", "directory/" or "name -> target".
func newHost(t testing.TB, entries ...string) *host {
	t.Helper()
	h := &host{tooltest.New(t, Plugin(), t.TempDir()), t}
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

func (h *host) path(name string) string { return filepath.Join(h.Cwd, name) }

func (h *host) write(name, content string) {
	h.t.Helper()
	must(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o777))
	must(h.t, os.WriteFile(h.path(name), []byte(content), 0o666))
}

type args map[string]any

// read calls read and expects it to work.
func (h *host) read(a args) (string, readData, *tool.Result) {
	h.t.Helper()
	res := h.Call("read", a)
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
	res := h.Call(name, a)
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
