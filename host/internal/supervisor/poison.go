package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
)

const (
	// After maxStrikes processes ended during the same call, the host refuses the call.
	maxStrikes = 2
	// strikeLife is the time after which the host permits a refused call again.
	strikeLife = 10 * time.Minute
	// maxPoisons limits the number of remembered calls of a plugin.
	maxPoisons = 1000
)

// poisons remembers the calls during which the plugin's process ended. A session can try the same call only
// twice; otherwise it could repeatedly end the plugin of other callers. Other sessions can still make the call, because
// it can have a different effect there, and because another call can be the cause.
type poisons struct {
	mu sync.Mutex
	by map[[sha256.Size]byte]strikes
}

type strikes struct {
	n    int
	last time.Time
	why  string
	// repeatable reports whether the call can run again in a separate process without additional effects.
	repeatable bool
}

// keyOf returns a key that identifies a call. The key depends on the session, the tool, the arguments, and the session
// state that the call uses. It omits the principal, because each principal has separate plugins; see [Plugin.within].
func keyOf(call *tool.Call) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(call.SessionID), []byte(call.Tool), call.Arguments, []byte(call.Cwd),
		call.SessionState} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// strikesOf returns the strikes of a call.
func (p *poisons) strikesOf(call *tool.Call) strikes {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.by) == 0 { // fast path: usually no call has strikes, and no key is needed
		return strikes{}
	}
	s := p.by[keyOf(call)]
	if time.Since(s.last) > strikeLife {
		return strikes{}
	}
	return s
}

// strike records that the process ended during a call. It returns the number of strikes.
func (p *poisons) strike(call *tool.Call, why string, repeatable bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil || len(p.by) >= maxPoisons {
		p.by = make(map[[sha256.Size]byte]strikes)
	}
	key := keyOf(call)
	s := p.by[key]
	if time.Since(s.last) > strikeLife {
		s.n = 0
	}
	s = strikes{n: s.n + 1, last: time.Now(), why: why, repeatable: repeatable}
	p.by[key] = s
	return s.n
}

// clear deletes the strikes of a successful call.
func (p *poisons) clear(call *tool.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.by) > 0 {
		delete(p.by, keyOf(call))
	}
}

// refused returns the error for a call that ended the plugin too often.
func (p *Plugin) refused(call string, s strikes) *tool.Error {
	return tool.Errorf(tool.Unavailable, "%s was not run, because this call ended plugin %s %d times (%s). Make another call, or change its arguments. This session can make the same call again in %s, or after toolhost plugin reload %s.",
		call, p.spec.Name, s.n, s.why, (strikeLife - time.Since(s.last)).Round(time.Second),
		p.spec.Name).From(tool.SourceHost)
}

// repeatable reports whether a tool can run again without further effects.
func (in *instance) repeatable(name string) bool {
	i := slices.IndexFunc(in.desc.Tools, func(d tool.Definition) bool { return d.Name == name })
	return i >= 0 && (in.desc.Tools[i].Traits.ReadOnly || in.desc.Tools[i].Traits.Idempotent)
}

// blame records that a process ended during a call. If the process ran only one call, this call is the cause. If it ran
// several calls, each repeatable call is suspected. The next try of a suspected call runs in a separate process, which
// shows whether the suspicion is right. Calls that are not repeatable are not suspected, because in a separate process
// they would lack their background processes.
func (p *Plugin) blame(in *instance, call *tool.Call, counted *Plugin) {
	repeatable := in.repeatable(call.Tool)
	if in.callsAtEnd() > 1 && !repeatable {
		return
	}
	if counted.poisons.strike(call, in.proc.exitCause(), repeatable) >= maxStrikes {
		counted.recovery.absolve() // the call is the cause, so the plugin's failures do not count
	}
}

// callsAtEnd returns the number of calls that the process ran when it ended. Each of these calls must call callsAtEnd
// before it releases its lease.
func (in *instance) callsAtEnd() int64 {
	in.countOnce.Do(func() { in.atEnd = in.calls.n.Load() })
	return in.atEnd
}

// isolation is a process that runs suspected calls, one at a time.
type isolation struct {
	turn chan struct{}

	mu     sync.Mutex
	plugin *Plugin // nil if no call is suspected
	users  int
	closed bool
}

// isolated returns a plugin with a process that runs no other call. The caller must call done. The argument
// of done reports whether the process ended.
func (p *Plugin) isolated(ctx context.Context) (alone *Plugin, done func(ended bool), err error) {
	i := &p.isolation
	i.mu.Lock()
	i.users++
	i.mu.Unlock()
	leave := func(ended bool) {
		i.mu.Lock()
		i.users--
		var old *Plugin
		if ended || i.users == 0 {
			old, i.plugin = i.plugin, nil
		}
		i.mu.Unlock()
		if old != nil {
			go old.close(0)
		}
	}
	select {
	case i.turn <- struct{}{}:
	case <-ctx.Done():
		leave(false)
		return nil, nil, ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plugin == nil {
		i.plugin = newPlugin(p.super, p.spec)
		i.plugin.closed = i.closed
	}
	return i.plugin, func(ended bool) {
		leave(ended)
		<-i.turn
	}, nil
}

// refuse prevents new calls.
func (i *isolation) refuse() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
}

// close stops the process of suspected calls.
func (i *isolation) close(grace time.Duration) {
	i.refuse()
	if old := i.current(); old != nil {
		old.close(grace)
	}
}

// current returns the plugin of suspected calls, or nil.
func (i *isolation) current() *Plugin {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.plugin
}
