package recording

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/develop"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/state"
)

// ReplayOptions configures [Replay].
type ReplayOptions struct {
	// Binary is the program that serves a plugin. Only the calls of this plugin are compared. If Binary is empty, all
	// calls are compared, with the plugins of the configuration.
	Binary string
	// Plugin is the name of the plugin in the configuration. If it is empty, Replay uses the plugin on the tape that
	// has the tools of the binary.
	Plugin string
	// Keep keeps the copy of the workspace. [Replayed.Workspace] is then its path.
	Keep bool
}

// ReplayedCall is a call that was replayed.
type ReplayedCall struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Arguments are the arguments on the tape.
	Arguments string       `json:"arguments"`
	Verdict   tape.Verdict `json:"verdict"`
	// Differences describes how the results differ.
	Differences []tape.Difference `json:"differences,omitempty"`
	// Note is a remark, such as that a secret was masked on the tape.
	Note string `json:"note,omitempty"`
}

// Replayed is the outcome of a replay.
type Replayed struct {
	Tape string `json:"tape"`
	// Calls lists the calls that were compared. Skipped is the number of other calls on the tape: calls of other
	// plugins, and calls that commands made.
	Calls   []ReplayedCall `json:"calls"`
	Skipped int            `json:"skipped"`
	// Counts maps verdicts to numbers of calls.
	Counts map[tape.Verdict]int `json:"counts"`
	// Workspace is the copy of the workspace, if it was kept.
	Workspace string `json:"workspace,omitempty"`
}

// Same reports whether no call differs.
func (r *Replayed) Same() bool { return r.Counts[tape.Different] == 0 }

// Replay runs the calls of a tape again, on a copy of the workspace that the tape contains, and compares the results.
// It uses the configuration in the options, and a separate state directory. It accepts all permission asks, because the
// recorded calls were permitted. If a replay is impossible, the error lists the reasons.
func Replay(ctx context.Context, opts Options, path string, r ReplayOptions) (out *Replayed, err error) {
	recorded, err := tape.Open(path)
	if err != nil {
		return nil, err
	}
	if r.Binary != "" {
		if r.Plugin, err = r.pluginOn(ctx, recorded); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "toolhost-replay-*")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	run := &replay{ReplayOptions: r, tape: recorded, dir: dir, workspace: filepath.Join(dir, "workspace"),
		out: &Replayed{Tape: path, Counts: make(map[tape.Verdict]int), Calls: []ReplayedCall{}}}
	defer func() {
		if r.Keep && err == nil {
			run.out.Workspace = run.workspace
			return
		}
		err = errors.Join(err, removeAll(dir))
	}()
	if err := os.Mkdir(run.workspace, 0o700); err != nil {
		return nil, err
	}
	if err := recorded.Restore(run.workspace); err != nil {
		return nil, err
	}
	if err := run.all(ctx, opts); err != nil {
		return nil, err
	}
	return run.out, nil
}

// removeAll removes a directory with its content, even if subdirectories are read-only.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory needs x
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// pluginOn returns the name that the plugin of the program has on a tape.
func (r *ReplayOptions) pluginOn(ctx context.Context, t *tape.Tape) (string, error) {
	names := make(map[string]bool)
	for _, c := range t.Calls {
		names[c.Plugin] = true
	}
	name := r.Plugin
	if name == "" {
		d, err := develop.Describe(ctx, r.Binary, nil, nil)
		if err != nil {
			return "", fmt.Errorf("%s does not describe itself: %w. Name the plugin: --plugin NAME=BINARY", r.Binary, err)
		}
		var tools []string
		for _, def := range d.Tools {
			tools = append(tools, def.Name)
		}
		name = t.PluginWith(tools)
	}
	if !names[name] {
		return "", fmt.Errorf("the tape has no call of plugin %q, only of %s. Name the plugin: --plugin NAME=BINARY", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return name, nil
}

// replay is one run of [Replay].
type replay struct {
	ReplayOptions
	tape           *tape.Tape
	dir, workspace string
	engine         *engine.Engine
	out            *Replayed
	names          map[string]string // session keys to IDs of requests
}

func (r *replay) all(ctx context.Context, opts Options) (err error) {
	opts.Workspace, opts.StateDir, opts.OnAsk, opts.Live = r.workspace, filepath.Join(r.dir, "state"), "allow", false
	if opts.TrustDir == "" {
		if opts.TrustDir, err = state.FindDir(""); err != nil {
			return err
		}
	}
	replace := make(map[string]string)
	if r.Binary != "" {
		replace[r.Plugin] = r.Binary
	}
	e, err := engine.NewMode(ctx, engine.Options(opts), engine.Mode{IgnorePins: true, Replace: replace})
	if err != nil {
		return err
	}
	r.engine = e
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := r.restoreSessions(); err != nil {
		return err
	}
	var again []*recorder.Tape
	for _, name := range slices.Sorted(maps.Values(r.names)) {
		rec, err := r.record(name)
		if err != nil {
			return err
		}
		again = append(again, rec)
	}
	results, err := r.calls(ctx)
	for _, rec := range again {
		_, e := rec.End()
		err = errors.Join(err, e)
	}
	if err != nil {
		return err
	}
	return r.compareAll(results)
}

// record records the calls of a session on a new tape. The comparison needs the results as plugins return
// them, which only a tape contains.
func (r *replay) record(session string) (*recorder.Tape, error) {
	key, err := r.engine.SessionKey(engine.Request{Session: session})
	if err != nil {
		return nil, err
	}
	return recorder.Start(recorder.Settings{
		Dir: state.Home{Root: filepath.Join(r.dir, "state")}.Recordings(), Session: key, Path: r.pathOf(session),
		Host: host.Version, Workspace: r.workspace,
	})
}

func (r *replay) pathOf(session string) string { return filepath.Join(r.dir, session+".tape") }

// idOf returns the ID of a replayed call.
func idOf(i int) string { return fmt.Sprintf("replay-%d", i+1) }

// calls runs the calls in the order in which they began on the tape. It returns the results that the host
// returned.
func (r *replay) calls(ctx context.Context) (map[string]*tool.Result, error) {
	results := make(map[string]*tool.Result)
	for i := range r.tape.Calls {
		c := &r.tape.Calls[i]
		switch {
		case c.Parent != "": // skip the call: the command of its parent makes it
			continue
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		moved, err := tape.Relocate(*c, tape.Workspace, r.workspace)
		if err != nil {
			return nil, err
		}
		req := engine.Request{ID: idOf(i), Name: c.Tool, Arguments: moved.Arguments, Session: r.names[c.Session]}
		results[req.ID] = r.engine.Begin(req, nil).Run(ctx)
	}
	return results, nil
}

// compareAll compares the calls of both tapes.
func (r *replay) compareAll(results map[string]*tool.Result) error {
	again := make(map[string]*tape.Call)
	for _, name := range r.names {
		t, err := tape.Open(r.pathOf(name))
		if err != nil {
			return err
		}
		for i := range t.Calls {
			again[t.Calls[i].ID] = &t.Calls[i]
		}
	}
	for i := range r.tape.Calls {
		c := &r.tape.Calls[i]
		if c.Parent != "" || r.Binary != "" && c.Plugin != r.Plugin {
			r.out.Skipped++
			continue
		}
		got := again[idOf(i)]
		if got == nil { // the host refused the call
			refused, err := tape.Relocate(tape.Call{Result: tape.NewResult(results[idOf(i)])}, r.workspace,
				tape.Workspace)
			if err != nil {
				return err
			}
			got = &refused
		}
		r.compare(c, got)
	}
	return nil
}

// restoreSessions restores the state that the sessions had at the beginning of the recording.
func (r *replay) restoreSessions() error {
	r.names = make(map[string]string)
	for i, recorded := range r.tape.Sessions {
		s, err := tape.Relocate(recorded, tape.Workspace, r.workspace)
		if err != nil {
			return err
		}
		r.names[recorded.ID] = fmt.Sprintf("replay-%d", i+1)
		out := state.Snapshot{
			Session: state.Session{Workspace: r.workspace, Cwd: s.Cwd}, Plugins: make(map[string][]byte),
		}
		for plugin, b := range s.States {
			out.Plugins[plugin] = b
		}
		for _, f := range s.Files {
			if known, ok := r.fileState(f); ok {
				out.Files = append(out.Files, known)
			}
		}
		if err := r.engine.Restore(engine.Request{Session: r.names[recorded.ID]}, out); err != nil {
			return err
		}
	}
	return nil
}

// fileState returns the state of a file if the copy still has the content that the session knew.
func (r *replay) fileState(f tape.FileState) (out tool.FileState, ok bool) {
	b, err := os.ReadFile(f.Path)
	if err != nil {
		return out, false
	}
	st, err := os.Stat(f.Path)
	if err != nil {
		return out, false
	}
	out = tool.FileState{
		Path: f.Path, ModTime: st.ModTime(), Size: st.Size(), Hash: sha256.Sum256(b), Partial: f.Partial,
	}
	return out, fmt.Sprintf("%x", out.Hash) == f.Hash
}

func (r *replay) compare(c, got *tape.Call) {
	out := ReplayedCall{ID: c.ID, Tool: c.Tool, Arguments: string(c.Arguments)}
	var def *tool.Definition
	if e := r.engine.Current().Registry.Find(c.Tool); e != nil {
		def = &e.Definition
		if tape.Hash(def) != c.Definition {
			out.Note = "the definition of the tool changed"
		}
	} else if t := r.tape.Tool(c.Tool); t != nil {
		def = &t.Definition
	}
	out.Verdict, out.Differences = tape.Compare(def, &c.Result, &got.Result)
	if c.Masked {
		out.Note = strings.TrimPrefix(out.Note+"; a secret was masked on the tape", "; ")
	}
	r.out.Calls = append(r.out.Calls, out)
	r.out.Counts[out.Verdict]++
}
