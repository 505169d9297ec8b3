package rollout

import "time"

const (
	// maxShadows is the maximum number of shadow calls that wait or run. Further shadow calls are omitted.
	maxShadows = 4
	// shadowInterval is the time between two starts of waiting shadow calls.
	shadowInterval = 10 * time.Millisecond
	// maxShadowWait is the time after which a shadow call starts although the old version is busy.
	maxShadowWait = 50 * time.Millisecond
	// shadowIdle is the time without shadow calls after which the goroutine that starts shadow calls ends.
	shadowIdle = time.Second
)

// waiting contains the shadow calls that wait for their start.
type waiting struct {
	calls   []func()
	since   time.Time // when the first of these calls began to wait
	started bool      // whether startShadows runs
}

// Shadow reports whether a call of the old version also runs on the new one. If it returns true, the caller must call
// [Rollout.Later].
func (r *Rollout) Shadow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs() {
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

// Later runs a shadow call soon, preferably while the old version serves no call. The function must call
// [Rollout.Compared] or [Rollout.Dropped]. The function does not run if the rollout ends first.
//
// Later only stores the function. It starts no goroutine, because this would wake a thread, which would delay the call
// that is being served more than the shadow call itself.
func (r *Rollout) Later(shadow func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.waiting
	if len(w.calls) == 0 {
		w.since = time.Now()
	}
	w.calls = append(w.calls, shadow)
	if !w.started {
		w.started = true
		go r.startShadows()
	}
}

// startShadows starts waiting shadow calls, and returns when no new ones arrive.
func (r *Rollout) startShadows() {
	tick := time.NewTicker(shadowInterval)
	defer tick.Stop()
	last := time.Now()
	for range tick.C {
		due, waits, goOn := r.dueShadows(time.Since(last) >= shadowIdle)
		if !goOn {
			return
		}
		for _, call := range due {
			go call()
		}
		if len(due) > 0 || waits {
			last = time.Now()
		}
	}
}

// dueShadows removes and returns the shadow calls that must start now. The result "waits" reports whether shadow calls
// still wait. The result "goOn" is false if startShadows must end: the rollout has ended, or no call waits and idle is
// true.
func (r *Rollout) dueShadows(idle bool) (due []func(), waits, goOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.waiting
	switch {
	case !r.runs():
		r.shadows -= len(w.calls)
		r.dropped += len(w.calls)
		*w = waiting{}
		return nil, false, false
	case len(w.calls) == 0:
		w.started = !idle
		return nil, false, w.started
	case r.serving > 0 && time.Since(w.since) < maxShadowWait:
		return nil, true, true
	}
	due, w.calls = w.calls, nil
	return due, false, true
}

// Serve announces a call of the old version. The caller must pass its outcome to [Rollout.Served] with the number 0.
func (r *Rollout) Serve() {
	r.mu.Lock()
	r.serving++
	r.mu.Unlock()
}

// Dropped ends a shadow call that was not compared. The argument "call" is 0 for a call that did not begin.
func (r *Rollout) Dropped(call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, call)
	r.shadows--
	r.dropped++
}

// Compared ends a shadow call. A nil case means that the results are the same.
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
