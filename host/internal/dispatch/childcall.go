package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/router"
)

// maxChildCalls limits the number of concurrent child calls of one call.
const maxChildCalls = 32

// childBegin resolves a child call. The function parse returns the command of the child call.
type childBegin func(req call.Request, parse func(*registry.Registry) *router.Command) pendingChild

// pendingChild is a resolved child call. The call starts when Run is called.
type pendingChild interface {
	Identity() *call.Identity
	// Run runs the call. The caller must call either Run or Abandon.
	Run(ctx context.Context, client call.Client) *tool.Result
	// Abandon ends the call without running it.
	Abandon()
}

// childCalls manages the child calls of one call. Child calls can run concurrently.
type childCalls struct {
	parent *call.Call
	begin  childBegin
	slots  chan struct{}
	made   atomic.Int64
}

// newChildCalls returns the child calls of the call parent.
func newChildCalls(parent *call.Call, begin childBegin) *childCalls {
	return &childCalls{parent: parent, begin: begin, slots: make(chan struct{}, maxChildCalls)}
}

// Handle implements [shim.Handler]. A child call runs through all stages. It uses the queue position and the
// concurrency slots of its parent. Like a subshell, it does not change the session's directory and state.
func (c *childCalls) Handle(ctx context.Context, req wire.Request, streams shim.Streams) int {
	p := c.begin(c.request(req.Cwd), func(r *registry.Registry) *router.Command {
		return c.parse(req, streams.Stdin, r)
	})
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		p.Abandon()
		return shim.StatusCannotRun
	}
	res := p.Run(ctx, &commandClient{Client: c.parent.Shown, name: req.Name})
	<-c.slots
	return printResult(p.Identity(), req.Name, res, streams)
}

// Call runs a child call that the code of the parent's tool makes. The function "permitted" reports whether the plugin
// is allowed to call the tool with the given full name. The child call shares the directory of its parent.
func (c *childCalls) Call(ctx context.Context, t *tool.ToolCall, permitted func(name string) bool) *tool.Result {
	req := c.request(c.parent.Request.Session.Cwd)
	req.Name, req.Arguments = t.Tool, t.Arguments
	p := c.begin(req, func(r *registry.Registry) *router.Command {
		return c.limited(router.Function(t.Tool, t.Arguments, r))
	})
	if err := c.refuse(p.Identity(), permitted); err != nil {
		p.Identity().Answer = call.Refused(err) // the audit log then shows the attempt
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		p.Abandon()
		return tool.Failed(context.Cause(ctx))
	}
	defer func() { <-c.slots }()
	return p.Run(ctx, &commandClient{Client: c.parent.Shown, name: t.Tool})
}

// refuse returns an error if the tool of the parent is not allowed to call the tool of a child call.
func (c *childCalls) refuse(child *call.Identity, permitted func(name string) bool) error {
	if child.Tool == nil {
		return nil // the call fails anyway
	}
	parent, name := c.parent.Identity.Tool, child.Tool.FullName()
	switch {
	case !permitted(name):
		return tool.Errorf(tool.PermissionDenied, "Plugin %s may not call %s. The operator can permit it: plugin %q { calls = [%q] }", parent.Plugin, name, parent.Plugin, name)
	case parent.Definition.Traits.ReadOnly && !child.Tool.Definition.Traits.ReadOnly:
		return tool.Errorf(tool.PermissionDenied, "%s is read-only, so it may only call tools that are read-only, and %s is not. Report this to the author of plugin %s.", parent.FullName(), name, parent.Plugin)
	}
	return nil
}

// request returns the request for the next child call, which runs in the directory cwd.
func (c *childCalls) request(cwd string) call.Request {
	parent := &c.parent.Request
	out := call.Request{ID: fmt.Sprintf("%s.%d", parent.ID, c.made.Add(1)), MessageID: parent.MessageID,
		Session: parent.Session, Trace: c.parent.RunContext()}
	out.Session.Cwd = filepath.Clean(cwd)
	return out
}

// parse returns the command of a child call. If the nesting of calls is too deep, the command contains an
// error.
func (c *childCalls) parse(req wire.Request, stdin io.Reader, r *registry.Registry) *router.Command {
	cmd := router.Argv(req.Name, req.Args, func(required bool) (string, bool, error) {
		// Read a file only if the tool cannot run without its text. In a "while read" loop, standard input is a file
		// that the tool must not read.
		if req.Stdin != wire.Piped && (req.Stdin != wire.Given || !required) {
			return "", false, nil
		}
		text, err := readAll(stdin)
		return text, err == nil, err
	}, r)
	return c.limited(cmd)
}

// limited adds an error to the command of a child call if the nesting of calls is too deep.
func (c *childCalls) limited(cmd *router.Command) *router.Command {
	if depth := c.parent.Identity.Depth + 1; depth > call.MaxDepth {
		cmd.Error = tool.Errorf(tool.InvalidArguments, "Tool calls are nested %d deep, and the limit is %d. Call the tool directly, not from another tool's command.", depth, call.MaxDepth).From(tool.SourceHost)
	}
	return cmd
}

// readAll reads a text to its end. It returns an error if the text is longer than the maximum length of a command.
func readAll(r io.Reader) (string, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, router.MaxCommand+1))
	if err == nil && n > router.MaxCommand {
		err = fmt.Errorf("the text is longer than %d bytes; write the text to a file and pass the path of the file", router.MaxCommand)
	}
	return b.String(), err
}

// printResult writes a result to the streams of a shim. It returns the exit status for the shim. For the shell tool,
// this is the exit status of the command.
func printResult(id *call.Identity, name string, res *tool.Result, streams shim.Streams) int {
	var shell struct{ Stdout, Stderr string }
	isShell := id.Tool != nil && id.Tool.Has(tool.RoleShell) && json.Unmarshal(res.Data, &shell) == nil
	var errs []error
	write := func(w io.Writer, s string) {
		_, err := io.WriteString(w, s)
		errs = append(errs, err)
	}
	switch {
	case isShell:
		write(streams.Stdout, shell.Stdout)
		write(streams.Stderr, shell.Stderr)
	case res.Success() && res.Output != "":
		write(streams.Stdout, strings.TrimSuffix(res.Output, "\n")+"\n")
	}
	e := res.Error
	if e != nil && (!isShell || e.Kind != tool.ExecutionFailed) {
		write(streams.Stderr,
			name+": "+strings.TrimSuffix(strings.TrimPrefix(e.Message, id.Command.Name+": "), "\n")+"\n")
	}
	switch {
	case errors.Join(errs...) != nil: // the shim disconnected
		return shim.StatusCannotRun
	case e == nil:
		return 0
	case isShell && e.Code > 0 && e.Code < 256:
		return e.Code
	case e.Kind == tool.NotFound && id.Tool == nil:
		return shim.StatusNotFound
	case e.Kind == tool.InvalidArguments:
		return shim.StatusUsage
	}
	return 1
}

// commandClient is the client of a child call. The client of the parent call receives no output, because the shim
// prints the result.
type commandClient struct {
	call.Client
	name string
}

func (f *commandClient) Progress(title string, metadata map[string]any) {
	if title != "" {
		title = f.name + ": " + title
	}
	f.Client.Progress(title, metadata)
}

func (*commandClient) Output(tool.Stream, []byte) {}
