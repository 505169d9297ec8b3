// Package rollout takes a new version of a plugin into service step by step. Most callers want [Set.Start] and [Set.Of].
//
// A rollout begins in shadow: the old version serves all calls, and a share of the read-only calls also runs on the new
// one, whose results are compared and dropped. Then the new version serves a growing share of the sessions. A rule stops
// the rollout if the new version fails more often, is slower, answers otherwise or needs more memory than the old one.
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
	// Steps contains the percentages of sessions that the new version serves, one after the other.
	Steps []float64
	// Pause is the minimum time in each step, and Calls is the minimum number of calls of the new version in each step.
	Pause time.Duration
	Calls int
	Abort Abort
}

// Abort contains the rules that stop a rollout. A zero field disables its rule.
type Abort struct {
	// ErrorRatio is the maximum ratio of the new version's share of failed calls to that of the old one.
	ErrorRatio float64
	// P95Ratio is the maximum ratio of the new version's 95th percentile of durations to that of the old one.
	P95Ratio float64
	// Differences is the maximum share of the compared calls whose results differ.
	Differences float64
	// MemoryRatio is the maximum ratio of the memory of the new version's largest process to that of the old one's.
	MemoryRatio float64
	// OutputRatio is the maximum ratio of what a call sends on the new version while it runs to what the same call sends on
	// the old one.
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

// Samples that a rule needs before it can stop a rollout.
const (
	minErrors    = 3  // failed calls of the new version
	minFloods    = 3  // calls of the new version that sent too much
	minDurations = 40 // calls of each version
	// maxStrikes is the number of checks in a row, each after minCompared further calls, in which the new version must be
	// slower. A process that has just started is slow for some calls, which are then no longer among the recent ones.
	maxStrikes = 6
	// minSlow is the time from the first of these checks to the last. While the machine starts a process or is busy with
	// something else, hundreds of calls can be slow on one version only.
	minSlow     = 2 * time.Second
	minCompared = 20 // compared calls
	// slack is the share of failed calls that is always tolerated, because a share of few calls varies.
	slack = 0.005
	// minSlower is the difference of durations that is always tolerated.
	minSlower = 2 * time.Millisecond
	// minMemory is the additional memory that is always tolerated, in bytes.
	minMemory = 64 << 20
	// minSent is what a call can always send while it runs, in bytes.
	minSent = 1 << 20
	// maxCases limits the differing calls that are kept.
	maxCases = 10
)

// Version identifies a version of a plugin for people.
type Version struct {
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// Case is a call in which the versions differ.
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
	// strikes counts the checks in a row in which the version was slower. slowSince is the time of the first of them, and
	// checked is the number of calls at the last one.
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
	why               string
	old, now          figures
	compared, differs int
	cases             []Case
	shadows           int // shadow calls that run
	dropped           int // shadow calls that were left out because too many ran
	shadowed          float64
	history           []Event
	// open contains the numbers of the calls that run on the new version, and begun is the number of the last one. barrier is
	// the last call that must have ended before the step ends, or 0 if the step is not due.
	open           map[uint64]bool
	begun, barrier uint64
}

// Event is a change of the state of a rollout.
type Event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Serves reports whether the new version serves a session. A session that it serves stays with it in later steps.
func (r *Rollout) Serves(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// maxShadows is the maximum number of shadow calls at the same time.
const maxShadows = 4

// Begin announces a call on the new version. A step does not end before the calls that began in it have ended, because a
// call that hangs has not failed yet. The caller must pass the result to [Rollout.Served], [Rollout.Compared] or
// [Rollout.Dropped].
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

// Shadow reports whether a call of the old version also runs on the new one. If it returns true, the caller must call
// [Rollout.Compared] or [Rollout.Dropped].
func (r *Rollout) Shadow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != Shadowing && r.state != Stepping {
		return false
	}
	r.shadowed += r.settings.Shadow / 100
	switch {
	case r.shadowed < 1:
		return false
	case r.shadows >= maxShadows:
		r.shadowed--
		r.dropped++
		return false
	}
	r.shadowed--
	r.shadows++
	return true
}

// Dropped ends a shadow call that was not compared. call is 0 for a call that did not begin.
func (r *Rollout) Dropped(call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, call)
	r.shadows--
	r.dropped++
}

// Compared ends a shadow call. A nil differences means that the results are the same.
func (r *Rollout) Compared(call uint64, c *Case, shadow Outcome) {
	r.mu.Lock()
	delete(r.open, call)
	r.shadows--
	r.compared++
	if c != nil {
		r.differs++
		if len(r.cases) < maxCases {
			r.cases = append(r.cases, *c)
		}
	}
	r.now.add(shadow)
	r.mu.Unlock()
	r.Check()
}

// Served counts a call that a version served. call is 0 for a call of the old version.
func (r *Rollout) Served(call uint64, o Outcome) {
	r.mu.Lock()
	byNew := call != 0
	if byNew {
		delete(r.open, call)
		r.now.add(o)
	} else {
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

// Patience returns how long a read-only call may take on the new version before it is repeated on the old one. limit is the
// time that the call has in total.
func (r *Rollout) Patience(limit time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(limit/2, max(leastPatience, 10*r.old.durations.quantile(0.95)))
}

// MaxSent returns how many bytes a call may send on the new version while it runs. old is what the same call sent on the old
// version. If old is negative, it is unknown, and the maximum of all calls of the old version counts.
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

// leastPatience is the minimum of [Rollout.Patience], if the call has twice this time.
const leastPatience = 2 * time.Second

// Check applies the rules and moves on to the next step if it is due. A host calls it regularly, because a step can end
// without a call.
func (r *Rollout) Check() {
	if r.memory != nil {
		old, now := r.memory()
		r.mu.Lock()
		r.old.memory, r.now.memory = max(r.old.memory, old), max(r.now.memory, now)
		r.mu.Unlock()
	}
	r.mu.Lock()
	if r.state != Shadowing && r.state != Stepping {
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
	r.finish(Promoted, why)
	r.mu.Unlock()
	r.end(r, true, why)
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

// broken returns the rule that stops the rollout, or "". The caller must hold the lock.
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
	if a.MemoryRatio > 0 && old.memory > 0 && now.memory > old.memory+minMemory && float64(now.memory) > a.MemoryRatio*float64(old.memory) {
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

// enter begins a step. The figures begin anew, so that both versions are compared over the same time. The caller must hold
// the lock.
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

// finish ends the rollout. The caller must hold the lock.
func (r *Rollout) finish(s State, why string) {
	r.state, r.why = s, why
	r.note(string(s) + ": " + why)
}

func (r *Rollout) note(text string) {
	r.history = append(r.history, Event{At: time.Now(), Text: text})
}
