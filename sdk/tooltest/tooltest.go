// Package tooltest implements a host for tests. It runs the tools of a plugin in process, so that
// an author can test handlers without a binary. [New] returns such a host:
//
//	h := tooltest.New(t, greeter.Plugin(), t.TempDir())
//	res := h.Call("hello", map[string]any{"name": "you"})
//
// Like the real host, it validates arguments and fills in defaults. Between calls, it keeps the
// session's file states and the plugin's session state.
package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Host is a session of a host with one plugin. It is safe for concurrent use.
type Host struct {
	// Roots and Cwd are the roots and the working directory of all calls. New sets both fields to the directory that it
	// receives. The root is writable.
	Roots []tool.Root
	Cwd   string
	// Answer answers the permission requests and questions of calls. If Answer is nil, changes of files are
	// permitted. All other requests then have the outcome for a host without a user.
	Answer func(tool.Ask) tool.Answer
	// Tools handles the calls that a handler makes to other tools by [sdk.Call.CallTool]. If Tools is nil, these calls
	// are refused.
	Tools func(tool.ToolCall) *tool.Result

	t       testing.TB
	plugin  tool.Plugin
	schemas map[string]*tool.Schema
	reads   map[string]bool // the read-only tools

	mu     sync.Mutex
	states map[string]tool.FileState
	state  []byte
	calls  int
	stdout []byte
	stderr []byte

	progress []Progress
	asks     []tool.Ask
	effects  []tool.Effect
}

// Renamed returns the plugin under the name "my-NAME", with tools under the names "my_NAME". A program that serves it
// shows that a host knows the plugin and its tools by what they describe, and not by their names.
func Renamed(p sdk.Plugin) sdk.Plugin {
	p.Name, p.Tools = "my-"+p.Name, slices.Clone(p.Tools)
	for i, t := range p.Tools {
		p.Tools[i] = t.Named("my_" + t.Name())
	}
	return p
}

// Progress is a progress report of a call.
type Progress struct {
	Title    string
	Metadata map[string]any
	// Done and Total are the numbers of [sdk.Call.ProgressOf]. They are 0 for other reports.
	Done, Total float64
}

// New returns a host with one session in the directory dir. If the definition of the plugin is invalid, New fails the
// test.
func New(t testing.TB, p sdk.Plugin, dir string) *Host {
	t.Helper()
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	impl, err := sdk.New(p)
	if err != nil {
		t.Fatal(err)
	}
	desc, err := impl.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{
		Roots: []tool.Root{{Path: root, Writable: true}}, Cwd: root, t: t, plugin: impl,
		schemas: make(map[string]*tool.Schema), reads: make(map[string]bool), states: make(map[string]tool.FileState),
	}
	for _, d := range desc.Tools {
		s, err := tool.ParseSchema(d.Input)
		if err != nil {
			t.Fatalf("tool %s: %v", d.Name, err)
		}
		h.schemas[d.Name], h.reads[d.Name] = s, d.Traits.ReadOnly
	}
	if p.Close != nil {
		t.Cleanup(p.Close)
	}
	return h
}

// Configure configures the plugin and returns its diagnostics. Call it at most once and before all other methods. If
// c.StateDir is empty, the plugin has no state directory, and [sdk.Call.Store] fails.
func (h *Host) Configure(c tool.Configuration) []tool.Diagnostic {
	h.t.Helper()
	diags, err := h.plugin.Configure(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return diags
}

// Call runs a tool. JSON must be able to represent the values of the arguments.
func (h *Host) Call(name string, args map[string]any) *tool.Result {
	h.t.Helper()
	return h.CallContext(h.t.Context(), name, args)
}

// CallContext works like Call, with a context that the test can cancel.
func (h *Host) CallContext(ctx context.Context, name string, args map[string]any) *tool.Result {
	h.t.Helper()
	schema := h.schemas[name]
	if schema == nil {
		h.t.Fatalf("the plugin has no tool %q", name)
	}
	given := make(map[string]json.RawMessage, len(args))
	for k, v := range args {
		b, err := json.Marshal(v)
		if err != nil {
			h.t.Fatal(err)
		}
		given[k] = b
	}
	complete, bad := schema.Check(given)
	if len(bad) > 0 {
		return tool.Failed(tool.Errorf(tool.InvalidArguments, "%s", bad[0].Message).From(tool.SourceHost))
	}
	raw, err := json.Marshal(complete)
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	h.calls++
	call := &tool.Call{
		ID: fmt.Sprint(h.calls), Tool: name, Arguments: raw, SessionID: "test", Cwd: h.Cwd, Roots: h.Roots,
		SessionState: h.state,
	}
	h.mu.Unlock()
	res := h.plugin.Call(ctx, call, peer{h})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.effects = append(h.effects, res.Effects...)
	for _, e := range res.Effects {
		if e.Operation == tool.OpDelete {
			delete(h.states, e.File.Path)
		} else {
			h.states[e.File.Path] = e.File
		}
	}
	if res.SessionState != nil && !h.reads[name] { // hosts ignore the state of a read-only tool
		h.state = res.SessionState
	}
	if res.Cwd != "" {
		h.Cwd = res.Cwd
	}
	return res
}

// Forget makes the session forget the states of all files.
func (h *Host) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.states)
}

// Output returns the complete output that the calls have streamed so far.
func (h *Host) Output() (stdout, stderr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.stdout), string(h.stderr)
}

// Progress returns the progress reports of all calls so far.
func (h *Host) Progress() []Progress { return recorded(h, &h.progress) }

// Asks returns the permission requests, questions and other requests of all calls so far.
func (h *Host) Asks() []tool.Ask { return recorded(h, &h.asks) }

// Effects returns the effects of all calls so far.
func (h *Host) Effects() []tool.Effect { return recorded(h, &h.effects) }

func recorded[T any](h *Host, list *[]T) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(*list)
}

type peer struct{ h *Host }

func (p peer) Progress(title string, metadata map[string]any) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	done, _ := metadata[tool.ProgressDone].(float64)
	total, _ := metadata[tool.ProgressTotal].(float64)
	p.h.progress = append(p.h.progress, Progress{Title: title, Metadata: metadata, Done: done, Total: total})
}

func (p peer) Output(s tool.Stream, chunk []byte) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if s == tool.Stderr {
		p.h.stderr = append(p.h.stderr, chunk...)
	} else {
		p.h.stdout = append(p.h.stdout, chunk...)
	}
}

func (p peer) Ask(_ context.Context, ask tool.Ask) (tool.Answer, error) {
	p.h.mu.Lock()
	p.h.asks = append(p.h.asks, ask)
	p.h.mu.Unlock()
	if ask.Call != nil && p.h.Tools != nil {
		b, err := json.Marshal(p.h.Tools(*ask.Call))
		return tool.Answer{Outcome: tool.Accepted, Content: b}, err
	}
	if p.h.Answer == nil && ask.Permission != nil && ask.Permission.Kind == tool.PermissionEdit {
		return tool.Answer{Outcome: tool.Accepted}, nil
	}
	if p.h.Answer == nil {
		return tool.Answer{Outcome: tool.NobodyToAsk}, nil
	}
	return p.h.Answer(ask), nil
}

func (p peer) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	out := make(map[string]tool.FileState)
	for _, path := range paths {
		if s, ok := p.h.states[path]; ok {
			out[path] = s
		}
	}
	return out, nil
}

// Know adds the state of a file to the session, as if a call had read the file.
func (h *Host) Know(state tool.FileState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[state.Path] = state
}
