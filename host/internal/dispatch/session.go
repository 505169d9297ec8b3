package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/router"
)

// MaxTimeout bounds every call, also of tools that keep their own time.
const MaxTimeout = time.Hour

// overdue says of a call that ran out of its time how long that was: the tool knows
// only that it had to stop.
func (p *Pending) overdue(ctx context.Context, res *tool.Result) *tool.Result {
	if res.Error == nil || res.Error.Kind != tool.Timeout || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return res
	}
	name := p.entry.FullName()
	if p.timeout < p.d.configured(p.entry) {
		res.Error = tool.Errorf(tool.Timeout, "%s took longer than %s, which is much for it, and was stopped (adaptive = true in the host block of the configuration). Ask for less, or turn that off.",
			name, p.timeout).From(res.Error.Source)
		return res
	}
	res.Error = tool.Errorf(tool.Timeout, "%s took longer than %s and was stopped. Ask for less, or raise the limit in the configuration: tool %q { timeout = \"…\" }.",
		name, p.timeout, name).From(res.Error.Source)
	return res
}

// narrow gives the call less time where calls of its tool have shown that it needs less. What
// it waited for before, such as a person's answer, they say nothing about.
func (p *Pending) narrow(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.d.Adaptive == nil || p.entry.Timeout < 0 {
		return ctx, func() {}
	}
	timeout := adaptedTimeout(p.d.Metrics.Tool(p.entry.FullName()), p.timeout)
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= timeout {
		return ctx, func() {}
	}
	p.timeout = timeout
	return context.WithTimeout(ctx, timeout)
}

// configured is what a call of a tool may take, as far as it and the operator say.
func (d *Dispatcher) configured(e *registry.Entry) time.Duration {
	switch t := e.Timeout; {
	case t < 0:
		return MaxTimeout
	case t > 0:
		return t
	}
	return d.Timeout
}

// call makes the call of the bound arguments.
func (p *Pending) call() *tool.Call {
	raw := object(p.args)
	s := p.req.Session
	return &tool.Call{
		ID: p.req.ID, MessageID: p.req.MessageID, Tool: p.entry.Definition.Name, Arguments: raw,
		SessionID: s.ID, Cwd: s.Cwd, Roots: s.Roots,
	}
}

// object joins values, each checked to be JSON before, to a JSON object.
func object(values map[string]json.RawMessage) json.RawMessage {
	size := len("{}")
	for name, v := range values {
		size += len(name) + len(v) + len(`"":,`)
	}
	out := append(make(json.RawMessage, 0, size), '{')
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil { // a string marshals
			panic(err)
		}
		out = append(append(append(out, key...), ':'), values[name]...)
	}
	return append(out, '}')
}

// inform completes a call, just before it runs, with what the session knows by now:
// calls before it may have changed it.
func (d *Dispatcher) inform(call *tool.Call, e *registry.Entry) error {
	if e.Definition.Traits.ReadOnly {
		return nil
	}
	s, err := d.State.PluginState(call.SessionID, e.Plugin)
	if err != nil {
		return fmt.Errorf("the session's state cannot be read: %w", err)
	}
	call.SessionState = s
	return nil
}

// remember keeps what the call read, changed and left. A nested call leaves nothing: the
// one that it runs inside of says what becomes of the session.
func (p *Pending) remember(res *tool.Result) {
	d, s := p.d, p.req.Session
	d.State.Apply(s.ID, res.Effects)
	if p.nesting > 0 {
		return
	}
	if res.SessionState != nil {
		d.State.SavePluginState(s.ID, p.entry.Plugin, res.SessionState)
	}
	if res.Cwd == "" || res.Cwd == s.Cwd {
		return
	}
	if !s.Contains(res.Cwd) {
		note := fmt.Sprintf("[note: the session stays in %s, because %s is outside of its roots]", s.Cwd, res.Cwd)
		if res.Metadata == nil {
			res.Metadata = make(map[string]any)
		}
		res.Metadata["note"] = note // for who followed the output as it came
		if res.Success() {
			res.Output = strings.TrimSuffix(res.Output, "\n") + "\n" + note
		} else {
			res.Error.Message += "\n" + note
		}
		return
	}
	s.Cwd = filepath.Clean(res.Cwd)
	d.State.SaveSession(s.Session)
}

// Contains reports whether a directory lies in one of the session's roots.
func (s Session) Contains(dir string) bool {
	dir = filepath.Clean(dir)
	return filepath.IsAbs(dir) && slices.ContainsFunc(s.Roots, func(r tool.Root) bool {
		return dir == r.Path || strings.HasPrefix(dir, strings.TrimSuffix(r.Path, "/")+"/")
	})
}

// maxToldDenials bounds how many denials a result tells of.
const maxToldDenials = 5

// tellDenied adds to a result what the sandbox refused meanwhile: programs hardly say.
func (p *Pending) tellDenied(res *tool.Result, since time.Time) {
	if p.d.Denied == nil {
		return
	}
	printed := res.Output
	if res.Error != nil {
		printed = res.Error.Message
	}
	all := p.d.Denied(p.entry.Plugin, p.req.Session.Roots, since, printed)
	for i, text := range all {
		if i == maxToldDenials {
			text = fmt.Sprintf("The sandbox refused %d more things", len(all)-i)
		}
		note := "[" + text + ".]"
		if res.Success() {
			res.Output = strings.TrimPrefix(strings.TrimSuffix(res.Output, "\n")+"\n"+note, "\n")
		} else {
			res.Error.Message = strings.TrimSuffix(res.Error.Message, "\n") + "\n" + note
		}
		if i == maxToldDenials {
			break
		}
	}
	if len(all) > 0 {
		if res.Metadata == nil {
			res.Metadata = make(map[string]any)
		}
		res.Metadata["denied"] = all
	}
}

// finish completes a result, for every way a call can end.
func (p *Pending) finish(res *tool.Result) *tool.Result {
	res.Run.CallID = p.req.ID
	if res.Run.Tool == "" && p.entry != nil {
		res.Run.Tool = p.entry.FullName()
	}
	if res.Error != nil && res.Error.Source == "" {
		res.Error = res.Error.From(tool.SourceTool)
	}
	entry := state.Entry{Session: p.req.Session.ID, At: p.started, Command: p.req.Command, Tool: res.Run.Tool, Success: res.Success()}
	if entry.Command == "" {
		entry.Command, entry.Arguments = p.req.Name, p.req.Arguments
	}
	if len(p.hooked) > 0 {
		if res.Metadata == nil {
			res.Metadata = make(map[string]any)
		}
		res.Metadata["hooks"] = p.hooked
	}
	p.suggest(res)
	res.Run.TraceID = p.at.ID()
	p.ended(res)
	p.audit(res)
	p.count(res)
	p.d.State.AddHistory(entry)
	return res
}

// count has the metrics know of the call.
func (p *Pending) count(res *tool.Result) {
	c := metrics.Call{Queued: res.Run.QueueTime, Execution: res.Run.ExecutionTime, Attempts: res.Run.Attempts, Waited: p.waited, CacheHit: res.Run.CacheHit}
	if res.Error != nil {
		c.Kind = res.Error.Kind
	}
	name := res.Run.Tool
	if name == "" && !p.command.IsHelp { // only names that are some tool's, or there were any number of them
		if e := p.d.Registry.Lookup(p.command.Namespace, p.command.Name); e != nil {
			name = e.FullName()
		}
	}
	p.d.Metrics.Tool(name).Ended(c)
}

// audit keeps what the call was, what was decided on it and what came of it.
func (p *Pending) audit(res *tool.Result) {
	e := state.AuditEntry{
		At: p.started, Session: p.req.Session.ID, Workspace: p.req.Session.Workspace, Call: p.req.ID, Parent: p.parent, Tool: res.Run.Tool, Layer: string(p.command.Layer),
		Arguments: p.given, Duration: time.Since(p.started), Outcome: "success", Hooks: p.hooksText(), Trace: p.at.ID(), Plugin: res.Run.Plugin, Version: res.Run.PluginVersion,
	}
	if e.Tool == "" {
		e.Tool = p.command.Name
		if p.command.Namespace != "" {
			e.Tool = p.command.Namespace + ":" + e.Tool
		}
	}
	if e.Plugin == "" && p.entry != nil {
		e.Plugin = p.entry.Plugin
	}
	if e.Arguments == nil {
		e.Arguments = p.unbound()
	}
	if d := p.decided; d != nil {
		e.Decision, e.Rule, e.Answered, e.Rewritten = string(d.Effect), d.Rule, d.Answered, d.Rewritten
	}
	if res.Error != nil {
		e.Outcome, e.Error = string(res.Error.Kind), res.Error.Message
	}
	p.d.State.AddAudit(e)
}

// unbound are the arguments of a call that went nowhere, as they came.
func (p *Pending) unbound() json.RawMessage {
	if p.req.Name != "" {
		return p.req.Arguments
	}
	b, err := json.Marshal(map[string]string{"command": p.command.Raw})
	if err != nil { // a string marshals
		panic(err)
	}
	return b
}

// gaveUp is the result of a call that did not come to run because of others.
func (p *Pending) gaveUp(ctx context.Context, err error, waitedFor string) *tool.Result {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = tool.Errorf(tool.Timeout, "%[1]s did not come to run within %[2]s, because it waited for %[3]s. Try again later, or raise the limit in the configuration: tool %[1]q { timeout = \"…\" }.",
			p.entry.FullName(), p.timeout, waitedFor)
	}
	res := refused(err)
	res.Run.QueueTime = time.Since(p.started)
	return res
}

func refused(err error) *tool.Result {
	e := tool.AsError(err)
	if e.Source == "" {
		e = e.From(tool.SourceHost)
	}
	return &tool.Result{Error: e}
}

// notFound adds to a name that is not known that a plugin of that name failed to load.
func (d *Dispatcher) notFound(c *router.Command) *tool.Result {
	if c.Error.Kind == tool.NotFound {
		if err := d.unloaded(c); err != nil {
			return refused(err)
		}
	}
	return &tool.Result{Error: c.Error}
}

// unloaded says that the plugin that would serve a command could not be loaded.
func (d *Dispatcher) unloaded(c *router.Command) error {
	if d.Unloaded == nil {
		return nil
	}
	namespace, _, _ := strings.Cut(c.Name, ":") // a native command, as there is no such namespace
	for _, name := range []string{c.Namespace, c.Name, namespace} {
		if why := d.Unloaded(name); name != "" && why != "" {
			return tool.Errorf(tool.Unavailable, "%s", why).From(tool.SourcePlugin)
		}
	}
	return nil
}

// commandNotFound is the shell's exit status for a command that there is not.
const commandNotFound = 127

// suggest names the tool that may have been meant by a command that the shell does not know.
func (p *Pending) suggest(res *tool.Result) {
	c := p.command
	if c == nil || c.Layer != router.Native || !c.Simple || res.Error == nil || res.Error.Code != commandNotFound {
		return
	}
	near := suggest.DidYouMean(firstWord(c), p.d.Registry.AgentNames())
	if near == "" {
		return
	}
	note := "No tool has that name either." + near
	e := *res.Error
	e.Message = strings.TrimRight(e.Message, "\n") + "\n" + note
	res.Error = &e
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	if _, other := res.Metadata["note"]; !other { // which is shown to a person beside the shell's own words
		res.Metadata["note"] = note
	}
}

func firstWord(c *router.Command) string {
	if c.Name != "" {
		return c.Name
	}
	return c.Raw
}

func (d *Dispatcher) options(cwd string) router.Options {
	return router.Options{Exists: existsFrom(cwd), Commands: d.Commands != nil && d.Commands.Available()}
}

func existsFrom(cwd string) func(string) bool {
	return func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		_, err := os.Lstat(path)
		return err == nil
	}
}
