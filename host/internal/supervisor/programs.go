package supervisor

import (
	"context"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// Programs starts the programs of plugins without the operating system. Such a program has no environment, and no
// sandbox confines it. Programs must be safe for concurrent use.
type Programs interface {
	// Start starts the program in the file at a path, for a plugin. It returns without waiting until the program serves
	// the plugin.
	Start(path string, spec *Spec) (Program, error)
}

// Program is a running program of a plugin. It must be safe for concurrent use.
type Program interface {
	// PID returns the number of the program, which is greater than 0.
	PID() int
	// Connect waits until the program serves the plugin, and connects to it.
	Connect(ctx context.Context) (tool.Plugin, error)
	// Wait returns when the program has ended. The error is nil if the program succeeded.
	Wait() error
	// Stop asks the program to end. Kill ends the program.
	Stop()
	Kill()
}

// startIn starts the process as one of programs and connects to it.
func (p *process) startIn(ctx context.Context, programs Programs, spec *Spec) (tool.Plugin, error) {
	program, err := programs.Start(p.cmd.Path, spec)
	if err != nil {
		return nil, startError(p.path, err)
	}
	p.program = program
	p.version.Store(toolrpc.ProtocolVersion)
	p.closeStarted()
	go func() {
		p.exitErr = program.Wait()
		close(p.exited)
	}()
	if p.guard != nil {
		if err := p.guard(program.PID()); err != nil {
			p.refused.Store(&err)
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill(ctx) })
	defer stop()
	rpc, err := program.Connect(ctx)
	p.shaken.Store(err == nil)
	return rpc, err
}

// The method "release" tells the process that the host no longer needs it.
func (p *process) release() {
	if p.program != nil {
		p.program.Stop()
		return
	}
	_ = p.lifeline.Close()
}
