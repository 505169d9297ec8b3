package supervisor

import (
	"context"
	"maps"
	"slices"

	"toolhost.dev/sdk/tool"
)

// Running calls the function "yield" for each running process, with the name of the plugin and the process id. It
// includes processes of replaced plugins that still run calls, and processes for additional roots.
func (s *Supervisor) Running(yield func(plugin string, pid int)) {
	s.mu.Lock()
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	for _, p := range plugins {
		p.running(yield)
		for _, other := range p.siblings.all() {
			other.running(yield)
		}
	}
}

// PIDs returns the running processes of the plugin, including those for additional roots.
func (p *Plugin) PIDs() (out []int) {
	add := func(_ string, pid int) { out = append(out, pid) }
	p.running(add)
	for _, other := range p.siblings.all() {
		other.running(add)
	}
	return out
}

func (p *Plugin) running(yield func(plugin string, pid int)) {
	if in := p.current.Load(); in != nil && !in.dead() {
		yield(p.spec.Name, in.proc.pid())
	}
	if alone := p.isolation.current(); alone != nil {
		alone.running(yield)
	}
}

// KillProcesses immediately kills each process for whose roots the function "of" returns true, including processes that
// are still starting. The calls in these processes fail. A later call starts a new process. Each channel in the result
// is closed when its process has ended. Until then, a new call can still reach the process, and then fails.
func (s *Supervisor) KillProcesses(of func(roots []tool.Root) bool) (ended []<-chan struct{}) {
	s.mu.Lock()
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	for _, p := range plugins {
		ended = append(ended, p.killProcesses(of)...)
		for _, other := range p.siblings.all() {
			ended = append(ended, other.killProcesses(of)...)
		}
	}
	return ended
}

func (p *Plugin) killProcesses(of func(roots []tool.Root) bool) (ended []<-chan struct{}) {
	// A process that starts is not current yet. It is checked first, because it becomes current before it leaves the
	// field.
	if proc := p.launching.Load(); proc != nil && of(p.spec.Roots) {
		_ = proc.Kill(context.Background()) // the error is always nil
		if proc.pid() != 0 {
			ended = append(ended, proc.exited)
		}
	}
	if in := p.current.Load(); in != nil && !in.dead() && of(p.spec.Roots) {
		_ = in.proc.Kill(context.Background()) // the error is always nil
		ended = append(ended, in.proc.exited)
	}
	if alone := p.isolation.current(); alone != nil {
		ended = append(ended, alone.killProcesses(of)...)
	}
	return ended
}
