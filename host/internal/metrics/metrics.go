// Package metrics counts what becomes of calls, by tool, and what plugins' processes use. It
// knows of no way to show that.
package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
)

// None is the name of calls that came to no tool, such as those of a name that is not known. No tool
// can have it.
const None = "(none)"

// maxNames bounds the tools and plugins that are told apart: those of all configurations that a host
// ever had. What comes after is counted as others.
const (
	maxNames = 1000
	others   = "(others)"
)

// Metrics of a host. The zero value is ready. It is safe for concurrent use.
type Metrics struct {
	mu      sync.RWMutex
	tools   map[string]*Tool
	plugins map[string]*plugin
}

// Tool counts the calls of one tool. It is safe for concurrent use; the nil Tool counts nothing.
type Tool struct {
	mu        sync.Mutex
	stats     ToolStats
	execution times
	queue     times
	running   running
}

// Call is one that has ended.
type Call struct {
	// Kind is the kind of its error. It is empty if the call succeeded.
	Kind tool.Kind
	// Queued is the time before it ran, or before it gave that up; 0: it was refused at once.
	Queued time.Duration
	// Execution is the time it ran, if Attempts is not 0.
	Execution time.Duration
	// Waited reports whether the call waited for other calls.
	Waited   bool
	Attempts int
	// CacheHit: an earlier result was its answer.
	CacheHit bool
}

// Tool returns the counts of a tool. An empty name means [None].
func (m *Metrics) Tool(name string) *Tool {
	if m == nil {
		return nil
	}
	if name == "" {
		name = None
	}
	m.mu.RLock()
	t := m.tools[name]
	m.mu.RUnlock()
	if t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tools == nil {
		m.tools = make(map[string]*Tool)
	}
	if len(m.tools) >= maxNames && m.tools[name] == nil {
		name = others
	}
	if t = m.tools[name]; t == nil {
		t = &Tool{stats: ToolStats{Name: name, Errors: make(map[tool.Kind]uint64)}}
		m.tools[name] = t
	}
	return t
}

// Begin counts a call in that runs from now on. end must be called once, when it has ended.
func (t *Tool) Begin() (end func()) {
	if t == nil {
		return func() {}
	}
	t.step(1)
	return func() { t.step(-1) }
}

func (t *Tool) step(n int) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running.step(n, now)
}

// Ended counts a call that has ended.
func (t *Tool) Ended(c Call) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.stats
	s.Calls++
	if c.Kind == "" {
		s.Successes++
	} else {
		s.Failures++
		s.Errors[c.Kind]++
	}
	if c.Waited {
		s.Waited++
	}
	if c.CacheHit {
		s.CacheHits++
	}
	if c.Attempts > 0 {
		t.execution.add(c.Execution)
		s.Retries += uint64(c.Attempts - 1)
	}
	if c.Attempts > 0 || c.Queued > 0 {
		t.queue.add(c.Queued)
	}
}

// running is how many calls run at a time.
type running struct {
	now, most int
	since     time.Time     // the last step
	busy      time.Duration // while any ran
	area      time.Duration // the sum over all calls of how long they ran
}

func (r *running) step(n int, now time.Time) {
	if elapsed := now.Sub(r.since); r.now > 0 && elapsed > 0 {
		r.busy += elapsed
		r.area += elapsed * time.Duration(r.now)
	}
	if r.since.Before(now) { // two steps may come in another order than their times
		r.since = now
	}
	r.now += n
	r.most = max(r.most, r.now)
}

// ToolStats is what became of a tool's calls since the host began.
type ToolStats struct {
	// Name is the tool's full name, or "(none)" for calls that came to no tool.
	Name string `json:"name"`
	// Calls that have ended, with those that were refused and those that commands made.
	Calls     uint64 `json:"calls"`
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	// Errors are the failures by kind.
	Errors map[tool.Kind]uint64 `json:"errors"`
	// Retries are the times that a call was tried again because its plugin died.
	Retries uint64 `json:"retries"`
	// Waited counts the calls that could not run at once, because others did.
	Waited uint64 `json:"waited"`
	// CacheHits counts the calls that an earlier result answered; see Adaptive.
	CacheHits uint64 `json:"cache_hits"`
	// Running calls: now, at most, and on average while any ran.
	Running        int     `json:"running"`
	RunningMax     int     `json:"running_max"`
	RunningAverage float64 `json:"running_average"`
	// Execution is of the calls that ran; Queue what came before, with asks for permission, also
	// of those that gave up while they waited.
	Execution Times `json:"execution"`
	Queue     Times `json:"queue"`
	// Adaptive contains the limits of the adaptive mode. It is nil if the mode is off or leaves the tool out.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
}

// Adaptive is what the adaptive mode has come to for a tool.
type Adaptive struct {
	// Timeout is the timeout in force, and TimeoutMost the configured one, in milliseconds.
	Timeout     float64 `json:"timeout_ms"`
	TimeoutMost float64 `json:"timeout_most_ms"`
	// Limit is how many calls may run at the same time, from 1 to LimitMost. 0 means no limit.
	Limit     int `json:"limit"`
	LimitMost int `json:"limit_most"`
	// Raised and Lowered count how often the limit was changed.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
}

// Taken sums up how long the calls ran that did: how many, the time that 95 % of them did not go
// beyond, and the average.
func (t *Tool) Taken() (count uint64, p95, average time.Duration) {
	if t == nil {
		return 0, 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if count = t.execution.count; count == 0 {
		return 0, 0, 0
	}
	return count, t.execution.quantile(0.95), t.execution.sum / time.Duration(count)
}

// Tools returns the statistics of all tools that were called, by name.
func (m *Metrics) Tools() []ToolStats {
	m.mu.RLock()
	tools := slices.Collect(maps.Values(m.tools))
	m.mu.RUnlock()
	out := make([]ToolStats, 0, len(tools))
	for _, t := range tools {
		out = append(out, t.snapshot())
	}
	slices.SortFunc(out, func(a, b ToolStats) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (t *Tool) snapshot() ToolStats {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running.step(0, now)
	s := t.stats
	s.Errors = maps.Clone(s.Errors)
	s.Running, s.RunningMax = t.running.now, t.running.most
	if t.running.busy > 0 {
		s.RunningAverage = float64(t.running.area) / float64(t.running.busy)
	}
	s.Execution, s.Queue = t.execution.summary(), t.queue.summary()
	return s
}
