package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/router"
)

// Commands lets the commands that a call starts call tools.
type Commands interface {
	// Available reports whether commands can call tools here at all.
	Available() bool
	// Grant lets them, until revoke is called. It gives nil when they cannot.
	Grant(ctx context.Context, handle shim.Handler) (c *tool.Commands, revoke func())
}

const (
	// maxNesting bounds how deep commands call tools that start commands.
	maxNesting = 8
	// maxNested bounds how many tools the commands of one call use at once.
	maxNested = 32
)

// lend lets the commands that a call starts call tools while it runs.
func (p *Pending) lend(ctx context.Context, call *tool.Call, front Front) (revoke func()) {
	revoke = func() {}
	if p.entry.Commands && p.d.Commands != nil {
		n := &nest{parent: p, front: front, slots: make(chan struct{}, maxNested)}
		if c, r := p.d.Commands.Grant(ctx, n.handle); c != nil {
			call.Commands, revoke = c, r
		}
	}
	return revoke
}

// nest is where the calls run that the commands of a call make.
type nest struct {
	parent *Pending
	front  Front
	slots  chan struct{}
}

// handle carries a call out that a command makes. It goes through everything that any
// call goes through but the line of the session, where the call it belongs to stands
// already; and as in a subshell, what it changes in the shell's state ends with it.
func (n *nest) handle(ctx context.Context, req wire.Request, streams shim.Streams) int {
	p := n.begin(req, streams.Stdin)
	select {
	case n.slots <- struct{}{}:
	case <-ctx.Done():
		if p.place != nil {
			p.place.Release()
		}
		return shim.StatusCannotRun
	}
	res := p.Run(ctx, &commandFront{Front: n.front, name: req.Name})
	<-n.slots
	return p.print(req.Name, res, streams)
}

// begin takes what a command wants up to where it can run.
func (n *nest) begin(req wire.Request, stdin io.Reader) *Pending {
	parent := n.parent
	p := &Pending{
		d: parent.d.latest(), started: time.Now(), nesting: parent.nesting + 1, parent: parent.req.ID,
		req: Request{ID: fmt.Sprintf("%s.%d", parent.req.ID, parent.nested.Add(1)), MessageID: parent.req.MessageID, Session: parent.req.Session, Trace: parent.within},
	}
	p.trace()
	p.req.Session.Cwd = filepath.Clean(req.Cwd)
	p.command = router.Argv(req.Name, req.Args, func(required bool) (string, bool, error) {
		// What is given is taken where it is needed; what only may be needed, where it is
		// piped, since "while read" has a file there that is not for the tool.
		if req.Stdin != wire.Piped && (req.Stdin != wire.Given || !required) {
			return "", false, nil
		}
		text, err := readAll(stdin)
		return text, err == nil, err
	}, p.d.Registry)
	p.req.Command = p.command.Raw
	if p.nesting > maxNesting {
		p.early = refused(tool.Errorf(tool.InvalidArguments, "Commands call tools that start commands that call tools, %d deep. Call the tool from the first command.", p.nesting))
		return p
	}
	p.settle()
	return p
}

// readAll reads a text of at most the length that a command may have.
func readAll(r io.Reader) (string, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, router.MaxCommand+1))
	if err == nil && n > router.MaxCommand {
		err = fmt.Errorf("it is longer than %d bytes: write it to a file and name the file", router.MaxCommand)
	}
	return b.String(), err
}

// print gives a shim what it prints, and its exit status: the shell's own goes through.
func (p *Pending) print(name string, res *tool.Result, streams shim.Streams) int {
	var shell struct{ Stdout, Stderr string }
	isShell := p.entry != nil && p.entry.FullName() == Shell && json.Unmarshal(res.Data, &shell) == nil
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
		write(streams.Stderr, name+": "+strings.TrimSuffix(strings.TrimPrefix(e.Message, p.command.Name+": "), "\n")+"\n")
	}
	switch {
	case errors.Join(errs...) != nil: // the shim is gone
		return shim.StatusCannotRun
	case e == nil:
		return 0
	case isShell && e.Code > 0 && e.Code < 256:
		return e.Code
	case e.Kind == tool.NotFound && p.entry == nil:
		return shim.StatusNotFound
	case e.Kind == tool.InvalidArguments:
		return shim.StatusUsage
	}
	return 1
}

// commandFront is the front of the call that a command belongs to, as the calls that
// the command makes see it. What those print is their result.
type commandFront struct {
	Front
	name string
}

func (f *commandFront) Progress(title string, metadata map[string]any) {
	if title != "" {
		title = f.name + ": " + title
	}
	f.Front.Progress(title, metadata)
}

func (*commandFront) Output(tool.Stream, []byte) {}
