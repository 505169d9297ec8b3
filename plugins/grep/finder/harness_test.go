package finder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// host calls the plugin in the same manner as the real host: it validates the arguments and sets their defaults.
type host struct {
	t       testing.TB
	finder  *finder
	plugin  tool.Plugin
	schemas map[string]*tool.Schema
	cwd     string
	roots   []tool.Root
}

// TestMain makes the tests independent of the user's configuration files.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "finder-test")
	if err == nil {
		err = errors.Join(os.Setenv("HOME", home), os.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(status)
}

// ownHome creates a home directory for the test. The calling test must not run in parallel.
func ownHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	return home
}

// schemas returns the JSON schemas of the tools' arguments, indexed by the name of the tool. All finders share them,
// because they have the same tools.
var schemas = sync.OnceValues(func() (map[string]*tool.Schema, error) {
	p, err := sdk.New(Plugin())
	if err != nil {
		return nil, err
	}
	d, err := p.Describe(context.Background())
	if err != nil {
		return nil, err
	}
	out := make(map[string]*tool.Schema)
	for _, def := range d.Tools {
		if out[def.Name], err = tool.ParseSchema(def.Input); err != nil {
			return nil, err
		}
	}
	return out, nil
})

// newHost returns a host with a working directory that contains the entries. An entry is "name=content", "dir/" or
// "link -> target".
func newHost(t testing.TB, entries ...string) *host {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	h := &host{t: t, cwd: dir, roots: []tool.Root{{Path: dir, Writable: true}}}
	h.serve(patientFinder())
	for _, e := range entries {
		h.add(e)
	}
	return h
}

// patientFinder returns a finder with long time limits, because calls are slow on a busy machine.
func patientFinder() *finder {
	f := newFinder()
	f.timeLimit = 5 * time.Minute
	return f
}

// serve sets the finder that the host calls.
func (h *host) serve(f *finder) {
	h.t.Helper()
	plugin := f.plugin()
	h.t.Cleanup(plugin.Close)
	p, err := sdk.New(plugin)
	must(h.t, err)
	h.finder, h.plugin = f, p
	h.schemas, err = schemas()
	must(h.t, err)
}

// ways contains one configuration for each search method. One method reads the disk. The others use an index with
// events, with comparison of stamps, without memory for texts, or with few watched directories.
var ways = map[string]config{
	"disk": {Index: new(bool)}, "events": {}, "stat": {Freshness: "stat"}, "small": {Memory: &small}, "few": {},
}

var small = 5

// inWays returns one host for each search method, all with the same directory. If names are given, it uses only
// these methods. The indexes of the hosts are already built.
func (h *host) inWays(names ...string) map[string]*host {
	h.t.Helper()
	out := make(map[string]*host)
	for name, c := range ways {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		o := *h
		f := patientFinder()
		f.configure(c)
		if name == "few" {
			f.options.Watches = 2
		}
		o.serve(f)
		if f.indexed {
			o.warm()
		}
		out[name] = &o
	}
	return out
}

func (h *host) add(entry string) {
	h.t.Helper()
	if name, target, ok := strings.Cut(entry, " -> "); ok {
		must(h.t, os.Symlink(target, h.path(name)))
		return
	}
	name, content, _ := strings.Cut(entry, "=")
	if strings.HasSuffix(name, "/") {
		must(h.t, os.MkdirAll(h.path(name), 0o777))
		return
	}
	must(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o777))
	must(h.t, os.WriteFile(h.path(name), []byte(content), 0o666))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// warm builds the index of the root that contains the working directory. Later calls then use the index.
func (h *host) warm() {
	h.t.Helper()
	h.call("grep", args{"pattern": "no such text anywhere"})
	for _, tree := range h.indexed().Trees {
		if tree.State != index.Ready {
			h.t.Fatalf("the index is %s: %s", tree.State, h.finder.indexes().Report().JSON())
		}
	}
}

// indexed waits until no index is being built. It returns the states of all indexes.
func (h *host) indexed() index.Report {
	for {
		r := h.finder.indexes().Report()
		if h.t.Context().Err() != nil || !slices.ContainsFunc(r.Trees, func(t index.TreeReport) bool { return t.State == index.Building }) {
			return r
		}
		time.Sleep(time.Millisecond)
	}
}

func (h *host) path(name string) string { return filepath.Join(h.cwd, name) }

// silent is a peer that ignores all messages.
type silent struct{ tool.Peer }

func (silent) Progress(string, map[string]any) {}

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
	return h.plugin.Call(h.t.Context(), &tool.Call{ID: "1", Tool: name, Arguments: sdk.Data(complete), Cwd: h.cwd, Roots: h.roots}, silent{})
}

// grep calls the tool grep and expects success. It returns the notes separately from the rest of the output.
func (h *host) grep(a args) (text, notes string, d grepData) {
	h.t.Helper()
	res := h.call("grep", a)
	if res.Error != nil {
		h.t.Fatalf("grep %v: %v", a, res.Error)
	}
	must(h.t, json.Unmarshal(res.Data, &d))
	text, notes = split(res.Output)
	return text, notes, d
}

func (h *host) glob(a args) (text, notes string, d globData) {
	h.t.Helper()
	res := h.call("glob", a)
	if res.Error != nil {
		h.t.Fatalf("glob %v: %v", a, res.Error)
	}
	must(h.t, json.Unmarshal(res.Data, &d))
	text, notes = split(res.Output)
	return text, notes, d
}

func split(output string) (text, notes string) {
	if strings.HasPrefix(output, "[note: ") {
		return "", output
	}
	if i := strings.Index(output, "\n\n[note: "); i >= 0 {
		return output[:i], output[i+2:]
	}
	return output, ""
}

// refuses calls a tool and expects an error of the given kind. The message must contain all words.
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
