package metrics

import (
	"maps"
	"slices"
	"strings"
)

// Event is a turn in the life of a plugin that is counted.
type Event int

// The events.
const (
	Started Event = iota + 1
	StartFailed
	Crashed
)

// Process is one of a plugin that runs now.
type Process struct {
	Plugin string
	PID    int
}

// PluginStats is what a plugin's processes are and were since the host began.
type PluginStats struct {
	Name string `json:"name"`
	// Starts counts the processes that served, FailedStarts those that did not, and Crashes the unexpected exits.
	Starts       uint64 `json:"starts"`
	FailedStarts uint64 `json:"failed_starts"`
	Crashes      uint64 `json:"crashes"`
	// PIDs of the processes that run now.
	PIDs []int `json:"pids"`
	// Usage is the usage of its processes and their children: memory now, the rest since the host started. For a
	// process that has ended it is the last known usage. A nil Usage means that it is unknown on this system.
	Usage *Usage `json:"usage,omitempty"`
}

// Usage is what processes use.
type Usage struct {
	// CPU time, in seconds.
	CPU float64 `json:"cpu_seconds"`
	// Memory is what is resident, in bytes; what processes share counts for each.
	Memory uint64 `json:"memory_bytes"`
	// Read and Written count the bytes from and to storage. They are nil if the system hides them. It does so for
	// plugins that protect their memory, as those of the SDK do, unless the host runs as root.
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
	ended *Usage              // by processes that are gone
	last  map[identity]*Usage // of those that were there when it was looked
}

// identity identifies a process, even if its number is used again.
type identity struct {
	pid   int
	began uint64
}

// Plugin counts an event.
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

// Plugins returns the statistics of all plugins that were started, by name. It reads the usage of the running
// processes.
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

// look takes in what the processes use that are there now.
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
