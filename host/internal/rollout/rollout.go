// Package rollout takes a new version of a plugin into service step by step. Most callers want [Set.Start] and
// [Set.Of].
//
// A rollout begins in shadow: the old version serves all calls. A share of the read-only calls also runs on the new
// version. The results of the new version are compared with those of the old version and then dropped. Then the new
// version serves a growing share of the sessions. A rule stops the rollout if the new version fails more often, is
// slower, returns other results or needs more memory than the old version.
package rollout

import (
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"time"

	"toolhost.dev/sdk/tape"
)

// Settings configures the rollouts of a plugin.
type Settings struct {
	// Shadow is the percentage of read-only calls that also run on the new version.
	Shadow float64
	// Steps contains one percentage for each step: the percentage of sessions that the new version serves in this step.
	Steps []float64
	// Pause is the minimum time in each step, and Calls is the minimum number of calls of the new version in each step.
	Pause time.Duration
	Calls int
	Abort Abort
}

// Abort contains the rules that stop a rollout. A zero field disables its rule.
type Abort struct {
	// ErrorRatio is the maximum ratio of the new version's share of failed calls to the old version's share.
	ErrorRatio float64
	// P95Ratio is the maximum ratio between the 95th percentiles of the durations of calls: the new version's
	// percentile divided by the old version's.
	P95Ratio float64
	// Differences is the maximum share of the compared calls whose results differ.
	Differences float64
	// MemoryRatio is the maximum ratio between the memory of the largest processes: the new version's memory divided by
	// the old version's.
	MemoryRatio float64
	// OutputRatio is the maximum ratio between the bytes that a running call sends: the bytes on the new version
	// divided by the bytes that the same call sends on the old version.
	OutputRatio float64
}

// State is the state of a rollout.
type State string

// The states of a rollout.
const (
	Shadowing State = "shadow"   // the old version serves all calls
	Stepping  State = "serving"  // the new version serves a share of the sessions
	Promoted  State = "promoted" // the new version serves all calls
	Aborted   State = "aborted"  // the old version serves all calls, and the new one was stopped
)

// These are the numbers of samples that a rule needs before it can stop a rollout.
const (
	minErrors    = 3  // failed calls of the new version
	minFloods    = 3  // calls of the new version that sent too much
	minDurations = 40 // calls of each version
	// The new version must be slower in maxStrikes checks in a row, each after minCompared further calls. A process
	// that has just started is slow for some calls. After so many checks, these calls are no longer among the recent
	// calls.
	maxStrikes = 6
	// minSlow is the minimum time from the first of these checks to the last. While the machine starts a process or is
	// busy with something else, hundreds of calls can be slow on one version only.
	minSlow     = 2 * time.Second
	minCompared = 20 // compared calls
	// slack is the share of failed calls that is always tolerated, because a share of a small number of calls varies.
	slack = 0.005
	// minSlower is the difference of durations that is always tolerated.
	minSlower = 2 * time.Millisecond
	// minMemory is the additional memory that is always tolerated, in bytes.
	minMemory = 64 << 20
	// minSent is the number of bytes that a call can always send while it runs.
	minSent = 1 << 20
	// memoryInterval is the minimum time between two measurements of memory, because each measurement reads several
	// files.
	memoryInterval = 200 * time.Millisecond
	// maxCases limits the number of calls with different results that are stored.
	maxCases = 10
)

// Version identifies a version of a plugin for people.
type Version struct {
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// Case is a call for which the two versions returned different results.
type Case struct {
	At          time.Time         `json:"at"`
	Tool        string            `json:"tool"`
	Arguments   string            `json:"arguments"`
	Differences []tape.Difference `json:"differences"`
}

// Outcome describes a call on one of the versions.
type Outcome struct {
	Failed   bool
	Duration time.Duration
	// Sent is the number of bytes that the call sent while it ran. A message counts as at least [MessageSize] bytes.
	Sent int64
	// Flooded reports that the new version sent more than [Rollout.MaxSent] permits.
	Flooded bool
}

// MessageSize is the minimum number of bytes for which a message counts in [Outcome].Sent.
const MessageSize = 256

// figures counts the calls of one version in the current step.
type figures struct {
	calls, failed int
	durations     recent
	memory        uint64
	sent          int64 // maximum of one call
	floods        int
	// strikes counts the checks in a row in which the version was slower. slowSince is the time of the first of these
	// checks, and checked is the number of calls at the time of the last check.
	strikes, checked int
	slowSince        time.Time
}

// Rollout is the rollout of one version. It is safe for concurrent use.
type Rollout struct {
	Plugin   string
	Old, New Version
	settings Settings
	// served and candidate lease the versions to calls.
	candidate Lessor
	end       func(r *Rollout, promote bool, why string)
	memory    func() (old, now uint64)
	salt      uint64

	mu                sync.Mutex
	state             State
	step              int // index in settings.Steps; -1 in shadow
	since             time.Time
	paused            bool
	promoting         bool // the new version serves all sessions, until the host has replaced the old one
	why               string
	old, now          figures
	compared, differs int
	cases             []Case
	serving           int // calls that the old version serves now
	shadows           int // shadow calls that wait or run
	dropped           int // shadow calls that were omitted because too many shadow calls waited or ran
	waiting           waiting
	shadowed          float64
	measured          time.Time // when the memory was last measured
	history           []Event
	// open contains the numbers of the calls that run on the new version, and begun is the number of the last call that
	// began. barrier is the number of the last call that must end before the step ends. It is 0 if the step is not due.
	open           map[uint64]bool
	begun, barrier uint64
}

// Event is a change of the state of a rollout.
type Event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Serves reports whether the new version serves a session. It then also serves this session in later steps.
func (r *Rollout) Serves(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.promoting {
		return true
	}
	if r.state != Stepping {
		return false
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", r.salt, session)
	return float64(h.Sum64()%10000) < 100*r.settings.Steps[r.step]
}

// Lessor leases a version of a plugin to calls of an owner. It returns nil if the version was stopped.
type Lessor func(owner string) Lease

// Candidate leases the new version. It returns nil if the version was stopped.
func (r *Rollout) Candidate(owner string) Lease { return r.candidate(owner) }

// Begin announces a call on the new version. A step does not end before all calls that began in this step have ended.
// Otherwise a call that hangs would not count, because it has not failed yet. The caller must pass the result to
// [Rollout.Served], [Rollout.Compared] or [Rollout.Dropped].
func (r *Rollout) Begin() (call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[uint64]bool)
	}
	r.begun++
	r.open[r.begun] = true
	return r.begun
}

// runs reports whether the rollout has not ended. The caller must hold the lock.
func (r *Rollout) runs() bool { return r.state == Shadowing || r.state == Stepping }

// Served counts a call that a version served. For a call of the old version, which [Rollout.Serve] announced, the
// argument "call" is 0.
func (r *Rollout) Served(call uint64, o Outcome) {
	r.mu.Lock()
	byNew := call != 0
	if byNew {
		delete(r.open, call)
		r.now.add(o)
	} else {
		r.serving--
		r.old.add(o)
	}
	due := byNew && (o.Failed || r.now.calls%minCompared == 0)
	r.mu.Unlock()
	if due {
		r.Check()
	}
}

func (f *figures) add(o Outcome) {
	f.calls++
	if o.Failed {
		f.failed++
	}
	f.durations.add(o.Duration)
	f.sent = max(f.sent, o.Sent)
	if o.Flooded {
		f.floods++
	}
}

// Patience returns how long a read-only call may take on the new version before the call is repeated on the old
// version. The argument "limit" is the total time that the call may take.
func (r *Rollout) Patience(limit time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(limit/2, max(leastPatience, 10*r.old.durations.quantile(0.95)))
}

// MaxSent returns how many bytes a call may send on the new version while it runs. The argument "old" is the number of
// bytes that the same call sent on the old version. If old is negative, MaxSent uses the maximum of all
// calls of the old version instead.
func (r *Rollout) MaxSent(old int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.settings.Abort.OutputRatio
	if limit <= 0 {
		return math.MaxInt64
	}
	if old < 0 {
		old = r.old.sent
	}
	return max(minSent, int64(limit*float64(old)))
}

// leastPatience is the minimum result of [Rollout.Patience] for a call that may take at least twice this time.
const leastPatience = 2 * time.Second

// Check applies the rules and moves on to the next step if it is due. A host calls it regularly, because a step can end
// without a call.
func (r *Rollout) Check() {
	r.measureMemory()
	r.mu.Lock()
	if !r.runs() || r.promoting {
		r.mu.Unlock()
		return
	}
	if why := r.broken(); why != "" {
		r.finish(Aborted, why)
		r.mu.Unlock()
		r.end(r, false, why)
		return
	}
	if r.paused || !r.due() {
		r.mu.Unlock()
		return
	}
	if r.step+1 < len(r.settings.Steps) {
		r.enter(r.step + 1)
		r.mu.Unlock()
		return
	}
	why := "all steps passed"
	r.promoting, r.why = true, why
	r.mu.Unlock()
	r.end(r, true, why)
}

// measureMemory measures the memory of both versions if the last measurement is long enough ago.
func (r *Rollout) measureMemory() {
	if r.memory == nil {
		return
	}
	r.mu.Lock()
	due := time.Since(r.measured) >= memoryInterval
	if due {
		r.measured = time.Now()
	}
	r.mu.Unlock()
	if !due {
		return
	}
	old, now := r.memory()
	r.mu.Lock()
	r.old.memory, r.now.memory = max(r.old.memory, old), max(r.now.memory, now)
	r.mu.Unlock()
}

// due reports whether the current step has lasted long enough.
func (r *Rollout) due() bool {
	n := r.now.calls
	if r.state == Shadowing {
		n = r.compared
	}
	if time.Since(r.since) < r.settings.Pause || n < r.settings.Calls || r.now.strikes > 0 {
		return false
	}
	if r.barrier == 0 {
		r.barrier = r.begun
	}
	for call := range r.open {
		if call <= r.barrier {
			return false
		}
	}
	return true
}

// broken returns a description of the rule that stops the rollout, or "". The caller must hold the lock.
func (r *Rollout) broken() string {
	a, old, now := r.settings.Abort, &r.old, &r.now
	if a.OutputRatio > 0 && now.floods >= minFloods {
		return fmt.Sprintf("output_ratio: %d calls sent too much while they ran, such as %d KiB, and at most %d KiB on the old version", now.floods, now.sent>>10, old.sent>>10)
	}
	if a.ErrorRatio > 0 && now.failed >= minErrors {
		oldShare, share := ratio(old.failed, old.calls), ratio(now.failed, now.calls)
		if share > a.ErrorRatio*oldShare+slack {
			return fmt.Sprintf("error_ratio: %.1f %% of %d calls failed, and %.1f %% of %d on the old version", 100*share, now.calls, 100*oldShare, old.calls)
		}
	}
	if a.Differences > 0 && r.compared >= minCompared && r.differs > 0 && ratio(r.differs, r.compared) > a.Differences {
		return fmt.Sprintf("differences: %d of %d compared calls have another result", r.differs, r.compared)
	}
	if why := r.slower(); why != "" {
		return why
	}
	if a.MemoryRatio > 0 && old.memory > 0 && now.memory > old.memory+minMemory &&
		float64(now.memory) > a.MemoryRatio*float64(old.memory) {
		return fmt.Sprintf("memory_ratio: a process uses %d MiB, and %d MiB on the old version", now.memory>>20, old.memory>>20)
	}
	return ""
}

// slower applies the rule for durations if further calls have ended since it was last applied. It returns the reason to
// stop, or "". The caller must hold the lock.
func (r *Rollout) slower() string {
	limit, old, now := r.settings.Abort.P95Ratio, &r.old, &r.now
	if limit <= 0 || old.calls < minDurations || now.calls < max(minDurations, now.checked+minCompared) {
		return ""
	}
	now.checked = now.calls
	was, is := old.durations.quantile(0.95), now.durations.quantile(0.95)
	if is <= time.Duration(limit*float64(was)) || is-was <= minSlower {
		now.strikes = 0
		return ""
	}
	if now.strikes++; now.strikes == 1 {
		now.slowSince = time.Now()
	}
	if now.strikes < maxStrikes || time.Since(now.slowSince) < minSlow {
		return ""
	}
	return fmt.Sprintf("p95_ratio: 95 %% of the calls take up to %s, and %s on the old version", is.Round(100*time.Microsecond), was.Round(100*time.Microsecond))
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// enter begins a step. It resets the figures, so that both versions are compared over the same period. The caller must
// hold the lock.
func (r *Rollout) enter(step int) {
	r.state, r.step, r.since = Stepping, step, time.Now()
	if step < 0 {
		r.state = Shadowing
		r.note(fmt.Sprintf("shadow of %g %% of the read-only calls", r.settings.Shadow))
	} else {
		r.note(fmt.Sprintf("%g %% of the sessions", r.settings.Steps[step]))
	}
	r.old, r.now = figures{memory: r.old.memory, sent: r.old.sent}, figures{memory: r.now.memory}
	r.compared, r.differs, r.barrier = 0, 0, 0
}

// Conclude ends a rollout that was promoted. The host calls it after the new version replaced the old one. Until then,
// the rollout continues, so that no session returns to the old version.
func (r *Rollout) Conclude() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.promoting && r.runs() {
		r.finish(Promoted, r.why)
	}
}

// finish ends the rollout. The caller must hold the lock.
func (r *Rollout) finish(s State, why string) {
	r.state, r.why = s, why
	r.note(string(s) + ": " + why)
}

func (r *Rollout) note(text string) {
	r.history = append(r.history, Event{At: time.Now(), Text: text})
}
