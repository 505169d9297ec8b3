package supervisor

import (
	"maps"
	"slices"
)

// Running calls the function yield for each running process, with the name of the plugin and the process id. It
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
