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

	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/router"
)

const (
	// maxDepth limits how many calls a call may run inside of.
	maxDepth = 8
	// maxChildren limits how many child calls of one call run at the same time.
	maxChildren = 32
)

// childCalls carries out the calls that the commands of a call make.
type childCalls struct {
	d      *Dispatcher
	parent *Call
	slots  chan struct{}
	made   atomic.Int64
}

func (d *Dispatcher) childCalls(parent *Call) *childCalls {
	return &childCalls{d: d, parent: parent, slots: make(chan struct{}, maxChildren)}
}

// handle implements [shim.Handler]. A child call goes through all stages, but it shares the turn and the room
// of its parent. Like a subshell it leaves the session's directory and state as they are.
func (cc *childCalls) handle(ctx context.Context, req wire.Request, streams shim.Streams) int {
	p := cc.begin(req, streams.Stdin)
	select {
	case cc.slots <- struct{}{}:
	case <-ctx.Done():
		p.call.release()
		return shim.StatusCannotRun
	}
	res := p.Run(ctx, &commandFront{Front: cc.parent.shown, name: req.Name})
	<-cc.slots
	return p.print(req.Name, res, streams)
}

// begin resolves a child call.
func (cc *childCalls) begin(req wire.Request, stdin io.Reader) *Pending {
	parent := &cc.parent.Request
	d := cc.d.latest()
	p := d.pending(Request{ID: fmt.Sprintf("%s.%d", parent.ID, cc.made.Add(1)), MessageID: parent.MessageID, Session: parent.Session, Trace: cc.parent.within}, cc.parent)
	r := &p.call.Request
	r.Session.Cwd = filepath.Clean(req.Cwd)
	cmd := router.Argv(req.Name, req.Args, func(required bool) (string, bool, error) {
		// A file is read only if the tool needs the text: in "while read" standard input is a file that is
		// not meant for the tool.
		if req.Stdin != wire.Piped && (req.Stdin != wire.Given || !required) {
			return "", false, nil
		}
		text, err := readAll(stdin)
		return text, err == nil, err
	}, d.Registry)
	r.Command = cmd.Raw
	if id := &p.call.Identity; id.Depth > maxDepth {
		id.Command = cmd
		id.Answer = refused(tool.Errorf(tool.InvalidArguments, "Tool calls are nested %d deep, and the limit is %d. Call the tool from the first command.", id.Depth, maxDepth))
		return p
	}
	p.resolve(cmd)
	return p
}

// readAll reads a text that is at most as long as a command may be.
func readAll(r io.Reader) (string, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, router.MaxCommand+1))
	if err == nil && n > router.MaxCommand {
		err = fmt.Errorf("it is longer than %d bytes: write it to a file and name the file", router.MaxCommand)
	}
	return b.String(), err
}

// print writes a result to the streams of a shim and returns the shim's exit status. The status of the shell
// tool passes through.
func (p *Pending) print(name string, res *tool.Result, streams shim.Streams) int {
	id := &p.call.Identity
	var shell struct{ Stdout, Stderr string }
	isShell := id.Tool != nil && id.Tool.FullName() == Shell && json.Unmarshal(res.Data, &shell) == nil
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
		write(streams.Stderr, name+": "+strings.TrimSuffix(strings.TrimPrefix(e.Message, id.Command.Name+": "), "\n")+"\n")
	}
	switch {
	case errors.Join(errs...) != nil: // the shim is gone
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

// commandFront is the parent's front as a child call sees it. The output of a child call is its result, which
// the shim prints.
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
