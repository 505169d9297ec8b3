package telemetry

import (
	"maps"
	"slices"
	"strings"
)

// Event is a counted event in the life of a plugin.
type Event int

// Kinds of events.
const (
	Started Event = iota + 1
	StartFailed
	Crashed
)

// Process is a running process of a plugin.
type Process struct {
	Plugin string
	PID    int
}

// PluginStats contains the statistics of a plugin's processes since the host started.
type PluginStats struct {
	Name string `json:"name"`
	// Starts counts the successful starts, FailedStarts the failed starts, and Crashes the unexpected exits.
	Starts       uint64 `json:"starts"`
	FailedStarts uint64 `json:"failed_starts"`
	Crashes      uint64 `json:"crashes"`
	// PIDs contains the ids of the running processes.
	PIDs []int `json:"pids"`
	// Usage contains the resource usage of the plugin's processes and their child processes. Memory is the current
	// value. All other fields are totals since the start of the host, and include ended processes up to their last
	// measurement. Usage is nil if the system does not report it.
	Usage *Usage `json:"usage,omitempty"`
}

// Usage contains the resource usage of processes.
type Usage struct {
	// CPU is the CPU time in seconds.
	CPU float64 `json:"cpu_seconds"`
	// Memory is the resident memory in bytes. Memory that several processes share counts once for each process.
	Memory uint64 `json:"memory_bytes"`
	// Read and Written count the bytes from and to storage. They are nil if the system hides the numbers. The system
	// hides them for plugins that protect their memory, unless the host runs as root. All plugins of the SDK protect
	// their memory.
	Read    *uint64 `json:"read_bytes,omitempty"`
	Written *uint64 `json:"written_bytes,omitempty"`
}

func (u *Usage) add(o Usage) {
	u.CPU += o.CPU
	u.Memory += o.Memory
	u.Read, u.Written = sum(u.Read, o.Read), sum(u.Written, o.Written)
}

func sum(a, b *uint64) *uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	s := *a + *b
	return &s
}

type plugin struct {
	stats PluginStats
	ended *Usage              // total usage of ended processes
	last  map[identity]*Usage // usage of the processes at the last update
}

// identity identifies a process. It contains the start time, because the system reuses process ids.
type identity struct {
	pid   int
	began uint64
}

// Plugin counts an event of a plugin.
func (m *Metrics) Plugin(name string, e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.plugin(name)
	switch e {
	case Started:
		p.stats.Starts++
	case StartFailed:
		p.stats.FailedStarts++
	case Crashed:
		p.stats.Crashes++
	}
}

func (m *Metrics) plugin(name string) *plugin {
	if m.plugins == nil {
		m.plugins = make(map[string]*plugin)
	}
	if len(m.plugins) >= maxNames && m.plugins[name] == nil {
		name = others
	}
	p := m.plugins[name]
	if p == nil {
		p = &plugin{stats: PluginStats{Name: name}}
		m.plugins[name] = p
	}
	return p
}

// Plugins returns the statistics of all started plugins, sorted by name. It reads the usage of the running processes.
func (m *Metrics) Plugins(processes []Process) []PluginStats {
	used := usages(processes)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.plugins {
		p.stats.PIDs = []int{}
	}
	seen := make(map[*plugin]map[identity]*Usage)
	for i, process := range processes {
		p := m.plugin(process.Plugin)
		p.stats.PIDs = append(p.stats.PIDs, process.PID)
		if u := used[i]; u != nil {
			if seen[p] == nil {
				seen[p] = make(map[identity]*Usage)
			}
			seen[p][u.identity] = &u.Usage
		}
	}
	out := make([]PluginStats, 0, len(m.plugins))
	for _, p := range m.plugins {
		p.look(seen[p])
		s := p.stats
		slices.Sort(s.PIDs)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PluginStats) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// look updates the usage of the running processes. It adds the usage of ended processes to the total.
func (p *plugin) look(now map[identity]*Usage) {
	for id, u := range p.last {
		if now[id] == nil {
			if p.ended == nil {
				p.ended = new(Usage)
			}
			u.Memory = 0
			p.ended.add(*u)
		}
	}
	p.last = now
	if p.ended == nil && len(now) == 0 {
		return
	}
	total := Usage{}
	if p.ended != nil {
		total = *p.ended
	}
	for u := range maps.Values(now) {
		total.add(*u)
	}
	p.stats.Usage = &total
}
