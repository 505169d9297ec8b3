package dispatch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/router"
)

// Pending is a call that is resolved and queued. The method Run starts the call.
type Pending struct {
	d    *Dispatcher // the dispatcher of the generation that contains the leased plugin
	call Call
	// unsettled reports that the route of the command depends on files in the session's directory. Earlier calls can
	// change the directory and its files. Therefore the route is determined again when it is the call's turn.
	unsettled bool
	// exclusive reports that the call can change the session. In this case, no other process is allowed to change the
	// session at the same time. The function "label" describes the call for messages.
	exclusive bool
	label     func() string
	unlock    func() // nil while the session is not locked
}

// Begin resolves the request of a ticket without blocking. The caller must call Run on the result. The calls of a
// session take effect in the order of their tickets. The session of the request must have been loaded after the ticket
// was made.
func (d *Dispatcher) Begin(req call.Request, ticket *scheduler.Ticket) *Pending {
	p := d.pending(req)
	c := &p.call
	c.Ticket = ticket
	p.complete()
	p.resolve(p.parse())
	if c.Identity.Answer != nil && !p.unsettled {
		c.Ticket.Abandon()
		c.Ticket = nil
		return p
	}
	if err := d.turns.Limits.Arrive(c); err != nil {
		c.Identity.Answer = call.Refused(err)
		c.Ticket.Abandon()
		c.Ticket = nil
		return p
	}
	needs := p.claim()
	p.exclusive, p.label = needs.Kind != scheduler.Read && needs.Kind != scheduler.Free, needs.Label
	c.Ticket.Claim(needs)
	return p
}

// beginInside resolves a child call. The function "parse" returns the command of the child call. A child call shares
// the queue position and the concurrency slots of its parent.
func (d *Dispatcher) beginInside(parent *Call, req call.Request,
	parse func(*registry.Registry) *router.Command) *Pending {
	p := d.pending(req)
	p.call.Identity.Parent, p.call.Identity.Depth = parent.Request.ID, parent.Identity.Depth+1
	p.call.Identity.Above = append(slices.Clone(parent.Identity.Above), parent.Identity.Tool.Plugin)
	cmd := parse(d.registry)
	if req.Name == "" {
		p.call.Request.Command = cmd.Raw
	}
	p.resolve(cmd)
	return p
}

// pending creates a call with the current time as its start.
func (d *Dispatcher) pending(req call.Request) *Pending {
	if req.Session.Principal == nil {
		req.Session.Principal = new(principal.Principal) // an empty principal has no permissions
	}
	p := &Pending{d: d, call: Call{Request: req}}
	p.call.Identity.Started = time.Now()
	p.call.StartSpan(d.tracer)
	return p
}

// Native reports whether the command is a plain shell command.
func (p *Pending) Native() bool { return p.call.Identity.Command.Layer == router.Native }

// Run runs the call and returns its result, which is never nil.
func (p *Pending) Run(ctx context.Context, client call.Client) *tool.Result {
	c := &p.call
	defer c.Release()
	if c.Identity.Depth == 0 { // a child call is visible only through its parent
		alive := startPulse(c, c.Name(), client, p.d.pulse)
		defer alive.Stop()
		client = alive
	}
	if layer := c.Request.Session.Layer; layer != nil && layer.Unasked != nil {
		client = &isolated{Client: client, unasked: layer.Unasked}
	}
	c.Client, c.Shown = client, client
	if c.Ticket != nil {
		p.turn(ctx)
		c.Park = p.park
	}
	if prepare := c.Request.Session.Prepare; prepare != nil && c.Identity.Answer == nil {
		if err := prepare(); err != nil {
			c.Identity.Answer = call.Refused(err)
		}
	}
	if c.Identity.Answer == nil && c.Identity.Depth == 0 {
		if err := claim.Stranded(c); err != nil {
			c.Identity.Answer = call.Refused(err)
		}
	}
	var res *tool.Result
	if c.Identity.Answer != nil {
		res = p.d.answer(ctx, c)
	} else {
		p.d.address(c)
		gate(c)
		res = p.d.run(ctx, c)
	}
	if c.Identity.Depth == 0 { // for a child call, the client waits for the parent's result
		p.d.keep(c, res)
	}
	return res
}

// keep waits until the changes that the call made to its session are stored so that they survive a kill of
// the host. If the changes cannot be stored, it adds a note to the result. A call that did not run needs no note,
// because it only changed the history.
func (d *Dispatcher) keep(c *Call, res *tool.Result) {
	if err := d.state.Commit(); err != nil && c.Outcome.Ran {
		call.NoteUnsaved(res, err)
	}
}

// Abandon ends the call without running it.
func (p *Pending) Abandon() { p.call.Release() }

// Identity returns the identity of the call.
func (p *Pending) Identity() *call.Identity { return &p.call.Identity }

// parse parses a request to a command. It sets the field unsettled if the route depends on files in the session's
// directory.
func (p *Pending) parse() *router.Command {
	req := &p.call.Request
	if req.Exchange != nil {
		return exchange(req)
	}
	if req.Name != "" {
		named := router.Function(req.Name, req.Arguments, p.d.registry)
		cmd := named.Line(p.d.registry)
		if cmd != named { // the state of a continuation is bound to the named tool
			req.Continuable, req.Continuation = false, nil
		}
		return cmd
	}
	opts := p.d.options(req.Session.Cwd)
	exists := opts.Exists
	p.unsettled = false
	opts.Exists = func(path string) bool {
		p.unsettled = true
		return exists(path)
	}
	return router.Parse(req.Command, p.d.registry, opts)
}

// options returns the options of the router for a directory.
func (d *Dispatcher) options(cwd string) router.Options {
	return router.Options{Exists: existsFrom(cwd), Commands: d.host.CommandsCallTools()}
}

// existsFrom returns a function that reports whether a path exists. The function interprets relative paths as relative
// to cwd.
func existsFrom(cwd string) func(string) bool {
	return func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		_, err := os.Lstat(path)
		return err == nil
	}
}

// resolve finds the tool of a command and leases the tool's plugin. If the call needs no plugin, resolve sets its
// result. The call belongs to the generation of the leased plugin, even after a reload replaces that generation.
func (p *Pending) resolve(cmd *router.Command) {
	p.call.Identity.Command = cmd
	for {
		p.d.bind(&p.call)
		id := &p.call.Identity
		if refused := refuse(&p.call); refused != nil {
			id.Answer = refused
		}
		if id.Answer != nil {
			return
		}
		if p.d.plugins.Lease(&p.call) {
			return
		}
		p.d = p.d.host.Latest()
		if p.call.Identity.Depth == 0 { // a child call has the session of its parent
			p.complete()
		}
	}
}

// complete adds roots and directories of the call's generation to the session. A call therefore never has the roots of
// one generation and the rules of another.
func (p *Pending) complete() {
	r := &p.call.Request
	r.Session = p.d.plugins.Complete(r.Session, r.Command, r.Arguments)
}

// bind sets the tool and the arguments of a call. If the call needs no plugin, bind sets its result.
func (d *Dispatcher) bind(c *Call) {
	id, cmd := &c.Identity, c.Identity.Command
	id.Tool, id.Answer, c.Decision.Arguments = nil, nil, nil
	if c.Request.Exchange != nil {
		d.bindExchange(c)
		return
	}
	native := cmd.Layer == router.Native
	switch {
	case cmd.Error != nil:
		id.Answer = d.notFound(cmd)
		return
	case cmd.Search != nil:
		id.Answer = searching
		return
	case cmd.IsHelp:
		id.Answer = help.Result(d.visible(c), cmd)
		return
	case native && cmd.Simple:
		if err := d.unloaded(cmd); err != nil {
			id.Answer = call.Refused(err)
			return
		}
	}
	name := cmd.Name
	if native {
		name = d.registry.RoleName(tool.RoleShell)
	}
	e, err := d.registry.Enabled(cmd.Namespace, name)
	switch {
	case err != nil && native:
		id.Answer = call.Refused(tool.Errorf(tool.NotFound, "%q is not a tool, and there is no shell to run it. Enable the plugin that serves the shell.", cmd.FirstWord()))
	case err != nil:
		id.Answer = call.Refused(err)
	case native:
		id.Tool = e
		d.bindShell(c)
	default:
		id.Tool, c.Decision.Arguments = e, cmd.Arguments
	}
}

// refuse returns an error result if the caller has no permission for the call. Otherwise it returns nil.
func refuse(c *Call) *tool.Result {
	e, p := c.Identity.Tool, c.Request.Session.Principal
	switch {
	case p == nil || !p.Has(principal.Call):
		return call.Refused(tool.Errorf(tool.PermissionDenied, "The caller has no permission to call tools. Ask the operator for a token with this permission: toolhost token create NAME --role caller."))
	case e != nil && p.Endpoint(e.Namespace, e.Definition.Name) != "":
		return call.Refused(tool.Errorf(tool.PermissionDenied, "The %s does not offer %s. Use another tool, or ask the operator to add the tool there.", p.Endpoint(e.Namespace, e.Definition.Name),
			e.FullName()))
	case e != nil && !p.ToolAllowed(e.Namespace, e.Definition.Name):
		return call.Refused(tool.Errorf(tool.PermissionDenied, "Principal %q may not call %s. Ask the operator to add the tool to the principal.", p.Name, e.FullName()))
	}
	return nil
}

// bindShell checks a native command against the schema of the shell tool.
func (d *Dispatcher) bindShell(c *Call) {
	args, bad := c.Identity.Tool.Schema().Check(c.Identity.Command.Kwargs)
	if len(bad) > 0 {
		c.Identity.Answer = call.Refused(tool.Errorf(tool.Internal, "Tool %s cannot run a command: %s. Configure another plugin for the shell.", c.Identity.Tool.FullName(), bad[0].Message))
		return
	}
	c.Decision.Arguments = args
}

// notFound returns the error result for a command without a known tool. If the tool's plugin failed to load, the error
// contains the reason.
func (d *Dispatcher) notFound(cmd *router.Command) *tool.Result {
	if cmd.Error.Kind == tool.NotFound {
		if err := d.unloaded(cmd); err != nil {
			return call.Refused(err)
		}
	}
	return &tool.Result{Error: cmd.Error}
}

// unloaded returns an error if the command needs a plugin that failed to load.
func (d *Dispatcher) unloaded(cmd *router.Command) error {
	namespace, _, _ := strings.Cut(cmd.Name, ":") // a command with an unknown namespace counts as native
	for _, name := range []string{cmd.Namespace, cmd.Name, namespace} {
		if name == "" {
			continue
		}
		if why := d.plugins.WhyUnloaded(name); why != "" {
			return tool.Errorf(tool.Unavailable, "%s", why).From(tool.SourcePlugin)
		}
	}
	return nil
}

// address prepares the message to the plugin.
func (d *Dispatcher) address(c *call.Call) {
	c.Identity.Confinement = d.plugins.Confinement(c.Identity.Tool.Plugin)
	c.Decision.Sent = c.Message()
}

// gate determines whether the exec gate judges the programs of a call.
func gate(c *call.Call) {
	c.Identity.Gated = c.Identity.Tool.Commands && c.Identity.Confinement.Gated(c.Decision.Sent.Roots)
}

// claim returns a description of the call for the scheduler.
func (p *Pending) claim() scheduler.Claim {
	out := claim.Of(&p.call, p.unsettled, p.d.state.MaskCommand)
	out.ID = p.call.Request.ID
	return out
}

// exchange returns the command of a request of an MCP client that is not a call of a tool. Only the log and the history
// use it.
func exchange(req *call.Request) *router.Command {
	return &router.Command{
		Layer: router.Field, Name: req.Name, Args: []string{}, Kwargs: map[string]json.RawMessage{},
		Raw: req.Exchange.Method, Rule: router.RuleFunction,
		Reason: "a client of MCP sent the request " + req.Exchange.Method,
	}
}

// bindExchange sets the entry and the arguments of an exchange.
func (d *Dispatcher) bindExchange(c *Call) {
	x := c.Request.Exchange
	e := d.registry.Relay(x.Plugin, x.Kind, x.Item)
	if e == nil {
		c.Identity.Answer = call.Refused(tool.Errorf(tool.NotFound, "Plugin %s does not offer %s any more. List the prompts and resources again.", x.Plugin,
			tool.Item{Kind: x.Kind, Name: x.Item}.FullName()))
		return
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(c.Request.Arguments, &args); err != nil {
		c.Identity.Answer = call.Refused(tool.Errorf(tool.InvalidArguments, "The parameters of %s are not a JSON object: %w.", x.Method, err))
		return
	}
	c.Identity.Tool, c.Decision.Arguments = e, args
}
