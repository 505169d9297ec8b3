// Package quota limits the calls of a subject: a field namespace or a principal. Most callers want [Set.Enter].
//
// A quota limits the calls at the same time, the calls a minute and the bytes a minute. A breaker stops the calls of a
// subject that keeps failing. A call over a limit is refused at once, with the time after which another try can
// succeed. Calls never wait for a quota, because a waiting call would hold resources that other subjects need.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// Subject identifies a field namespace or a principal that a quota limits, such as "field:github" or "principal:ci".
// The name "*" stands for each subject of that kind without a quota of its own.
type Subject string

// Kinds of subjects.
const (
	KindField     = "field"
	KindPrincipal = "principal"
)

// Field returns the subject of a field namespace.
func Field(name string) Subject { return Subject(KindField + ":" + name) }

// Principal returns the subject of a principal.
func Principal(name string) Subject { return Subject(KindPrincipal + ":" + name) }

// ParseSubject splits a subject into its kind and its name. ok is false if the text is not a subject.
func ParseSubject(text string) (kind, name string, ok bool) {
	kind, name, ok = strings.Cut(text, ":")
	return kind, name, ok && name != "" && (kind == KindField || kind == KindPrincipal)
}

// any returns the subject that stands for each subject of the same kind.
func (s Subject) any() Subject {
	kind, _, _ := strings.Cut(string(s), ":")
	return Subject(kind + ":*")
}

// Limits restricts the calls of a subject. A zero field means no limit.
type Limits struct {
	// Parallel is the maximum number of calls at the same time.
	Parallel int
	// CallsPerMinute is the number of calls that become available in a minute. Unused calls accumulate up to this
	// number.
	CallsPerMinute int
	// BytesPerMinute is the number of bytes of arguments and results that become available in a minute. A call starts
	// if at least one byte is available, because the size of the result is unknown at the start.
	BytesPerMinute uint64
	Breaker        Breaker
}

// Breaker stops the calls of a subject that keeps failing. Zero Failures means no breaker.
type Breaker struct {
	// Failures is the number of failures in a row after which calls are refused.
	Failures int
	// Pause is the time for which calls are refused. After the pause, one trial call determines whether the subject
	// works again.
	Pause time.Duration
}

// Rules contains the limits of subjects.
type Rules map[Subject]Limits

// limitsOf returns the limits of a subject. ok is false if the subject has no limits. A principal can have the name
// BLOCK/NAME, with the name of its block and a name in this block. The limits of the block then apply to each of its
// principals separately.
func (r Rules) limitsOf(s Subject) (l Limits, ok bool) {
	l, ok = r[r.Block(s)]
	return l, ok
}

// Block returns the subject of the block whose limits apply to s. It returns s if no block applies.
func (r Rules) Block(s Subject) Subject {
	block, _, _ := strings.Cut(string(s), "/")
	for _, name := range []Subject{s, Subject(block), s.any()} {
		if _, ok := r[name]; ok {
			return name
		}
	}
	return s
}

// Of returns the limits of a subject, including the limits of its block and of its kind.
func (r Rules) Of(s Subject) Limits {
	l, _ := r.limitsOf(s)
	return l
}

// Stricter returns limits that permit a call only if both r and other permit the call.
func (r Rules) Stricter(other Rules) Rules {
	out := make(Rules)
	for _, rules := range []Rules{r, other} {
		for s := range rules {
			a, _ := r.limitsOf(s)
			b, _ := other.limitsOf(s)
			out[s] = Limits{
				Parallel: lower(a.Parallel, b.Parallel), CallsPerMinute: lower(a.CallsPerMinute, b.CallsPerMinute),
				BytesPerMinute: lower(a.BytesPerMinute, b.BytesPerMinute),
				Breaker: Breaker{Failures: lower(a.Breaker.Failures, b.Breaker.Failures),
					Pause: max(a.Breaker.Pause, b.Breaker.Pause)},
			}
		}
	}
	return out
}

// lower returns the lower one of two limits. Zero means no limit.
func lower[N int | uint64](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// OverError reports that a call is over a limit of a subject.
type OverError struct {
	Subject Subject
	// Limit is the setting that refused the call: "parallel", "calls_per_minute", "bytes_per_minute" or "breaker".
	Limit string
	// Maximum is the value of the setting. For a breaker, it is the number of failures.
	Maximum uint64
	// RetryAfter is the time after which another try can succeed. It is an estimate for "parallel".
	RetryAfter time.Duration
}

func (e *OverError) Error() string {
	return fmt.Sprintf("%s is over its limit %s = %d", e.Subject, e.Limit, e.Maximum)
}

// Set counts the calls of all subjects. The zero value is ready to use. A Set is safe for concurrent use. The limits
// can change with each call, so one Set can be used across changes of the configuration.
type Set struct {
	mu sync.Mutex
	by map[Subject]*account
}

// account is the state of one subject.
type account struct {
	subject      Subject
	limits       Limits
	running      int
	calls, bytes bucket
	breaker      circuitbreaker.CircuitBreaker[any]
	total        uint64
	refused      map[string]uint64
}

// bucket contains the number of calls or bytes that a subject can still use. The bucket fills up to the limit per
// minute. A negative number must be refilled before the next call.
type bucket struct {
	left float64
	at   time.Time
	// known reports whether the bucket was filled before. A new bucket is full.
	known bool
}

func (b *bucket) fill(perMinute float64, now time.Time) {
	if !b.known {
		b.left, b.known = perMinute, true
	} else if passed := now.Sub(b.at); passed > 0 {
		b.left += passed.Minutes() * perMinute
	}
	b.left, b.at = min(b.left, perMinute), now
}

// change adapts the bucket to another limit. An increase is available at once. If there was no limit before, the bucket
// begins full.
func (b *bucket) change(old, now float64) {
	if old == 0 {
		b.known = false
	}
	b.left += max(0, now-old)
}

// wait returns the time until the bucket contains at least one unit.
func (b *bucket) wait(perMinute float64) time.Duration {
	return time.Duration((1-b.left)/perMinute*float64(time.Minute)).Round(time.Millisecond) + time.Millisecond
}

// parallelRetry is the retry time for a call over the limit "parallel". The end of the running calls is unknown.
const parallelRetry = time.Second

// Pass permits one call. The caller must call Leave at the end of the call.
type Pass struct {
	set   *Set
	of    []*account
	leave sync.Once
}

// Outcome describes how a call ended.
type Outcome struct {
	// Bytes is the size of the arguments and the result.
	Bytes int
	// Ran reports whether the call reached its tool. The breakers ignore a call that did not reach its tool.
	Ran bool
	// Failed reports that the call failed. Down reports that the call failed because the tool does not work, and not
	// because of the arguments. The breaker of a principal counts all failed calls. The breaker of a field counts only
	// calls with Down.
	Failed, Down bool
}

// Enter permits a call that counts for all given subjects, or returns an [*OverError]. If one subject refuses the call,
// the quotas of the other subjects do not change. The result is nil if no subject has limits. The method Leave does
// nothing for a nil Pass.
func (s *Set) Enter(rules Rules, subjects ...Subject) (*Pass, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var all []*account
	for _, name := range subjects {
		limits, limited := rules.limitsOf(name)
		if !limited {
			continue
		}
		a := s.account(name, limits)
		a.calls.fill(float64(limits.CallsPerMinute), now)
		a.bytes.fill(float64(limits.BytesPerMinute), now)
		if over := a.exceeded(); over != nil {
			a.refused[over.Limit]++
			return nil, over
		}
		all = append(all, a)
	}
	// Check the breakers last: if a breaker permits a trial call, this call must take place.
	for i, a := range all {
		if a.breaker == nil || a.breaker.TryAcquirePermit() {
			continue
		}
		for _, earlier := range all[:i] {
			earlier.back()
		}
		a.refused["breaker"]++
		return nil, &OverError{Subject: a.subject, Limit: "breaker", Maximum: uint64(a.limits.Breaker.Failures),
			RetryAfter: max(a.breaker.RemainingDelay(), parallelRetry)}
	}
	for _, a := range all {
		a.running++
		a.total++
		a.calls.left--
	}
	if all == nil {
		return nil, nil
	}
	return &Pass{set: s, of: all}, nil
}

// exceeded returns an error for a limit that another call would exceed, or nil. It does not check the breaker.
func (a *account) exceeded() *OverError {
	l := a.limits
	switch {
	case l.Parallel > 0 && a.running >= l.Parallel:
		return &OverError{Subject: a.subject, Limit: "parallel", Maximum: uint64(l.Parallel), RetryAfter: parallelRetry}
	case l.CallsPerMinute > 0 && a.calls.left < 1:
		return &OverError{Subject: a.subject, Limit: "calls_per_minute", Maximum: uint64(l.CallsPerMinute),
			RetryAfter: a.calls.wait(float64(l.CallsPerMinute))}
	case l.BytesPerMinute > 0 && a.bytes.left < 1:
		return &OverError{Subject: a.subject, Limit: "bytes_per_minute", Maximum: l.BytesPerMinute,
			RetryAfter: a.bytes.wait(float64(l.BytesPerMinute))}
	}
	return nil
}

// back reopens a breaker that permitted a trial call, because the call did not reach its tool. Otherwise,
// the breaker would wait forever for the outcome of the call.
func (a *account) back() {
	if a.breaker != nil && a.breaker.IsHalfOpen() {
		a.breaker.Open()
	}
}

// Leave ends a call. Repeated calls have no effect.
func (p *Pass) Leave(o Outcome) {
	if p == nil {
		return
	}
	p.leave.Do(func() {
		p.set.mu.Lock()
		defer p.set.mu.Unlock()
		for _, a := range p.of {
			a.running--
			a.bytes.left -= float64(o.Bytes)
			a.learn(o)
		}
	})
}

// learn passes the outcome of a call to the breaker.
func (a *account) learn(o Outcome) {
	kind, _, _ := ParseSubject(string(a.subject))
	switch {
	case a.breaker == nil:
	case !o.Ran:
		a.back()
	case o.Down || o.Failed && kind == KindPrincipal:
		a.breaker.RecordFailure()
	default:
		a.breaker.RecordSuccess()
	}
}

// maxAccounts is the number of accounts at which a set deletes unused accounts before it adds another one. An issuer
// can have any number of principals.
const maxAccounts = 4096

// unused reports whether the account is equal to a new account, apart from the counters.
func (a *account) unused() bool {
	return a.running == 0 && (a.breaker == nil || a.breaker.IsClosed() && a.breaker.Metrics().Failures() == 0) &&
		a.calls.left >= float64(a.limits.CallsPerMinute) && a.bytes.left >= float64(a.limits.BytesPerMinute)
}

// account returns the account of a subject with the given limits.
func (s *Set) account(name Subject, l Limits) *account {
	if s.by == nil {
		s.by = make(map[Subject]*account)
	}
	a := s.by[name]
	if a == nil {
		if len(s.by) >= maxAccounts {
			maps.DeleteFunc(s.by, func(_ Subject, a *account) bool { return a.unused() })
		}
		a = &account{subject: name, refused: make(map[string]uint64)}
		s.by[name] = a
	}
	switch {
	case l.Breaker.Failures == 0:
		a.breaker = nil
	case a.breaker == nil || a.limits.Breaker != l.Breaker:
		a.breaker = circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(l.Breaker.Failures)).
			WithDelay(l.Breaker.Pause).WithSuccessThreshold(1).Build()
	}
	a.calls.change(float64(a.limits.CallsPerMinute), float64(l.CallsPerMinute))
	a.bytes.change(float64(a.limits.BytesPerMinute), float64(l.BytesPerMinute))
	a.limits = l
	return a
}

// Status describes the use of a quota.
type Status struct {
	Subject Subject `json:"subject"`
	// Running is the number of calls at this moment. Calls is the number of calls that were permitted.
	Running int    `json:"running"`
	Calls   uint64 `json:"calls"`
	// Refused maps settings to the number of calls that they refused.
	Refused map[string]uint64 `json:"refused,omitempty"`
	// Parallel, CallsPerMinute and BytesPerMinute are the limits. Zero means no limit.
	Parallel       int    `json:"parallel,omitempty"`
	CallsPerMinute int    `json:"calls_per_minute,omitempty"`
	BytesPerMinute uint64 `json:"bytes_per_minute,omitempty"`
	// CallsLeft and BytesLeft are the numbers of calls and bytes that the subject can use now. BytesLeft is negative
	// after a result that was larger than the remaining number.
	CallsLeft int   `json:"calls_left,omitempty"`
	BytesLeft int64 `json:"bytes_left,omitempty"`
	// Breaker is "closed" if calls are permitted, "open" if they are refused, and "trying" during a trial call. It is
	// empty for a subject without a breaker.
	Breaker string `json:"breaker,omitempty"`
	// RetryAfter is the time in seconds after which another call can succeed. It is zero if a call can succeed now.
	RetryAfter float64 `json:"retry_after,omitempty"`
}

// Status returns the use of the quotas in the given rules, sorted by subject. It omits subjects without calls, except
// subjects that the rules name.
func (s *Set) Status(rules Rules) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, l := range rules {
		if name != name.any() {
			s.account(name, l)
		}
	}
	out := []Status{}
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		limits, limited := rules.limitsOf(name)
		if !limited {
			continue
		}
		a := s.account(name, limits)
		a.calls.fill(float64(limits.CallsPerMinute), now)
		a.bytes.fill(float64(limits.BytesPerMinute), now)
		st := Status{
			Subject: name, Running: a.running, Calls: a.total, Refused: maps.Clone(a.refused),
			Parallel: limits.Parallel, CallsPerMinute: limits.CallsPerMinute, BytesPerMinute: limits.BytesPerMinute,
			CallsLeft: int(a.calls.left), BytesLeft: int64(a.bytes.left),
		}
		if over := a.exceeded(); over != nil {
			st.RetryAfter = over.RetryAfter.Seconds()
		}
		if a.breaker != nil {
			st.Breaker = map[circuitbreaker.State]string{circuitbreaker.ClosedState: "closed",
				circuitbreaker.OpenState: "open", circuitbreaker.HalfOpenState: "trying"}[a.breaker.State()]
			if a.breaker.IsOpen() {
				st.RetryAfter = max(st.RetryAfter, a.breaker.RemainingDelay().Seconds())
			}
		}
		out = append(out, st)
	}
	return out
}
