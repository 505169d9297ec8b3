// Package telemetry keeps what can be observed of a host. Other packages display it.
//
// [Metrics] counts the outcomes of calls by tool, and the resource usage of plugin processes. A [Tracer] records traces
// of calls from the frontend to the plugin. It uses W3C trace context and exports spans with the OpenTelemetry
// protocol.
//
// A [PluginLog] keeps what plugins print and log, in one file for each plugin. Several hosts can write to the same
// files. The size of a file is limited: a file that reaches the limit is renamed and replaces the previous file. Only
// one old file is kept.
package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
)

// None is the tool name of calls that reached no tool, such as calls with an unknown name. No tool can have this name.
const None = "(none)"

// maxNames limits the number of tools and plugins with separate counters, over all configurations of a host. All other
// names share one counter.
const (
	maxNames = 1000
	others   = "(others)"
)

// Metrics holds the metrics of a host. The zero value is ready to use. It is safe for concurrent use.
type Metrics struct {
	mu      sync.RWMutex
	tools   map[string]*Tool
	plugins map[string]*plugin
}

// Tool counts the calls of one tool. It is safe for concurrent use. A nil Tool ignores all calls.
type Tool struct {
	mu        sync.Mutex
	stats     ToolStats
	execution times
	queue     times
	running   running
}

// Call describes a call after its end.
type Call struct {
	// Kind is the kind of the call's error. It is empty if the call succeeded.
	Kind tool.Kind
	// Queued is the time before the call ran or was abandoned. Zero means that the call was denied immediately.
	Queued time.Duration
	// Execution is the duration of the execution. It is valid only if Attempts is greater than zero.
	Execution time.Duration
	// Waited reports whether the call waited for other calls.
	Waited   bool
	Attempts int
	// CacheHit reports whether the result came from the cache.
	CacheHit bool
}

// Tool returns the counters of a tool. An empty name means [None].
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

// Begin counts a running call. The caller must call end once, at the end of the call.
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

// Ended counts a call after its end.
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

// running measures how many calls run over time.
type running struct {
	now, most int
	since     time.Time     // time of the last change
	busy      time.Duration // time during which at least one call ran
	area      time.Duration // sum of the durations of all calls
}

func (r *running) step(n int, now time.Time) {
	if elapsed := now.Sub(r.since); r.now > 0 && elapsed > 0 {
		r.busy += elapsed
		r.area += elapsed * time.Duration(r.now)
	}
	if r.since.Before(now) { // concurrent changes can arrive out of order
		r.since = now
	}
	r.now += n
	r.most = max(r.most, r.now)
}

// ToolStats contains the statistics of a tool's calls since the host started.
type ToolStats struct {
	// Name is the tool's full name, or "(none)" for calls that reached no tool.
	Name string `json:"name"`
	// Calls is the number of ended calls, including denied calls and child calls.
	Calls     uint64 `json:"calls"`
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	// Errors contains the number of failed calls by kind of error.
	Errors map[tool.Kind]uint64 `json:"errors"`
	// Retries is the number of repetitions after the death of a plugin.
	Retries uint64 `json:"retries"`
	// Waited is the number of calls that had to wait for other calls.
	Waited uint64 `json:"waited"`
	// CacheHits is the number of results from the cache; see Adaptive.
	CacheHits uint64 `json:"cache_hits"`
	// Running is the current number of running calls. RunningMax is the maximum number. RunningAverage is the average
	// number while at least one call runs.
	Running        int     `json:"running"`
	RunningMax     int     `json:"running_max"`
	RunningAverage float64 `json:"running_average"`
	// Execution contains the durations of executions. Queue contains the waiting times before them, including the time
	// for questions to a person. Queue also includes calls that never ran.
	Execution Times `json:"execution"`
	Queue     Times `json:"queue"`
	// Adaptive contains the limits of the adaptive mode. It is nil if the mode is disabled or ignores the tool.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
}

// Adaptive contains the limits that the adaptive mode learned for a tool.
type Adaptive struct {
	// Timeout is the current timeout in milliseconds. TimeoutMost is the configured timeout.
	Timeout     float64 `json:"timeout_ms"`
	TimeoutMost float64 `json:"timeout_most_ms"`
	// Limit is the maximum number of concurrent calls, from 1 to LimitMost. Zero means no limit.
	Limit     int `json:"limit"`
	LimitMost int `json:"limit_most"`
	// Raised and Lowered count the changes of the limit.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
}

// Taken returns the number of executed calls, and the 95th percentile and the average of their durations.
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

// Tools returns the statistics of all called tools, sorted by name.
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
