package rollout

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
)

// Lease permits one call to use a version of a plugin.
type Lease interface {
	Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result
	// Release returns the lease. It must be called exactly once.
	Release()
	// Version identifies one instance of the plugin.
	Version() any
}

// Start describes a rollout that begins.
type Start struct {
	Plugin   string
	Old, New Version
	Settings Settings
	// Candidate leases the new version.
	Candidate Lessor
	// Memory returns the memory of the largest process of each version, in bytes. It can be nil.
	Memory func() (old, now uint64)
	// End is called once, when the rollout was promoted or aborted. The argument "why" is the reason. After a
	// promotion, End must replace the old version and then call [Rollout.Conclude].
	End func(r *Rollout, promote bool, why string)
}

// Set contains the rollouts of a host. The zero value is ready to use. It is safe for concurrent use.
type Set struct {
	mu sync.RWMutex
	by map[string]*Rollout
}

// Start begins a rollout. It replaces a rollout of the same plugin that ended.
func (s *Set) Start(st Start) *Rollout {
	r := &Rollout{
		Plugin: st.Plugin, Old: st.Old, New: st.New, settings: st.Settings, candidate: st.Candidate, end: st.End,
		memory: st.Memory,
		salt:   rand.Uint64(), //nolint:gosec // only spreads the sessions
	}
	r.mu.Lock()
	first := 0
	if st.Settings.Shadow > 0 {
		first = -1
	}
	r.enter(first)
	r.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[string]*Rollout)
	}
	s.by[st.Plugin] = r
	return r
}

// Of returns the running rollout of a plugin, or nil.
func (s *Set) Of(plugin string) *Rollout {
	s.mu.RLock()
	r := s.by[plugin]
	s.mu.RUnlock()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs() {
		return nil
	}
	return r
}

// Last returns the last rollout of a plugin, which can have ended, or nil.
func (s *Set) Last(plugin string) *Rollout {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.by[plugin]
}

// checkInterval is the time between two checks of running rollouts.
const checkInterval = time.Second

// Watch checks the running rollouts regularly until ctx ends.
func (s *Set) Watch(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.check()
		case <-ctx.Done():
			return
		}
	}
}

func (s *Set) check() {
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.by))
	s.mu.RUnlock()
	for _, r := range all {
		r.Check()
	}
}

// Status returns the last rollout of each plugin, sorted by plugin.
func (s *Set) Status() []Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Status
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		out = append(out, s.by[name].Status())
	}
	return out
}

// Actions of operators.
const (
	ActionPromote = "promote"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionAbort   = "abort"
)

// Actions lists the actions of operators.
var Actions = []string{ActionPromote, ActionPause, ActionResume, ActionAbort}

// Do carries out an action of an operator.
func (r *Rollout) Do(action, by string) error {
	r.mu.Lock()
	if !r.runs() || r.promoting {
		defer r.mu.Unlock()
		state := r.state
		if r.promoting {
			state = Promoted
		}
		return fmt.Errorf("the rollout of plugin %s has ended (%s: %s); a changed binary begins another one", r.Plugin, state, r.why)
	}
	why := "by " + by
	switch action {
	case ActionPause, ActionResume:
		defer r.mu.Unlock()
		if r.paused != (action == ActionPause) {
			r.paused = !r.paused
			r.note(action + "d " + why)
		}
		return nil
	case ActionPromote:
		r.promoting, r.why = true, why
	case ActionAbort:
		r.finish(Aborted, why)
	default:
		defer r.mu.Unlock()
		return fmt.Errorf("unknown action %q; use one of %v", action, Actions)
	}
	r.mu.Unlock()
	r.end(r, action == ActionPromote, why)
	return nil
}

// Supersede ends a rollout without calling the function End, because of a later change of the plugin.
func (r *Rollout) Supersede(why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs() {
		return false
	}
	r.finish(Aborted, why)
	return true
}

// Figures describes the calls of one version in the current step.
type Figures struct {
	Version
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
	// P50 and P95 are in milliseconds.
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	// Memory is the memory of the largest process, in bytes. It is zero if it is unknown.
	Memory uint64 `json:"memory,omitempty"`
	// Sent is the maximum number of bytes that one call sent while it ran.
	Sent int64 `json:"sent,omitempty"`
}

// Status describes a rollout for its operator.
type Status struct {
	Plugin string `json:"plugin"`
	State  State  `json:"state"`
	Paused bool   `json:"paused,omitempty"`
	// Step is the number of the current step, and Steps is the number of all steps. The first step has the number 1. In
	// shadow, Step is 0.
	Step  int `json:"step"`
	Steps int `json:"steps"`
	// Share is the percentage of sessions that the new version serves.
	Share float64   `json:"share"`
	Since time.Time `json:"since"`
	// Why is the reason why the rollout ended.
	Why string  `json:"why,omitempty"`
	Old Figures `json:"old"`
	New Figures `json:"new"`
	// Compared is the number of shadow calls in the current step, and Differs is the number of shadow calls with a
	// different result. Dropped is the number of shadow calls that were omitted because too many shadow calls ran.
	Compared int `json:"compared"`
	Differs  int `json:"differs"`
	Dropped  int `json:"dropped"`
	// Cases contains the first calls with different results in the whole rollout.
	Cases   []Case  `json:"cases,omitempty"`
	History []Event `json:"history"`
}

// Status returns the state of the rollout.
func (r *Rollout) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := func(v Version, f *figures) Figures {
		ms := func(q float64) float64 { return float64(f.durations.quantile(q).Microseconds()) / 1000 }
		return Figures{
			Version: v, Calls: f.calls, Failed: f.failed, P50: ms(0.5), P95: ms(0.95), Memory: f.memory, Sent: f.sent,
		}
	}
	st := Status{
		Plugin: r.Plugin, State: r.state, Paused: r.paused, Step: r.step + 1, Steps: len(r.settings.Steps),
		Since: r.since, Why: r.why,
		Old: of(r.Old, &r.old), New: of(r.New, &r.now), Compared: r.compared, Differs: r.differs, Dropped: r.dropped,
		Cases: slices.Clone(r.cases), History: slices.Clone(r.history),
	}
	switch {
	case r.promoting && r.runs(), r.state == Promoted:
		st.Share = 100
	case r.state == Stepping:
		st.Share = r.settings.Steps[r.step]
	}
	return st
}

// recent contains the last durations of calls.
type recent struct {
	all []time.Duration
	at  int
}

// maxRecent is the number of durations that are kept. It is less than maxStrikes*minCompared, so that the slow calls
// after a start are forgotten before they can stop a rollout.
const maxRecent = 100

func (r *recent) add(d time.Duration) {
	if len(r.all) < maxRecent {
		r.all = append(r.all, d)
		return
	}
	r.all[r.at] = d
	r.at = (r.at + 1) % maxRecent
}

// quantile returns the duration that a share q of the calls did not exceed.
func (r *recent) quantile(q float64) time.Duration {
	if len(r.all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
