package registry

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// State is where a tool is in its life:
//
//	[*] → registered → initializing → ready ⇄ executing
//	                        ↓          ⇅ ↖        ↓
//	                      failed   disabled ←── error
//	                        ↓          ↓
//	                        unregistered → [*]
//
// Also, ready → unregistered; the slanted arrow is error → ready. No other transition is legal.
//
// A tool is ready when it can be called; whether its plugin runs already does not matter,
// since a call starts it. It is executing while calls of it run, which is counted and not
// recorded, for the sake of their time. It is in error after its plugin ended under a call, until
// the plugin runs again; and disabled by the operator, or while its plugin is left alone
// because it ends again and again.
type State string

// The states.
const (
	Registered   State = "registered"
	Initializing State = "initializing"
	Ready        State = "ready"
	Executing    State = "executing"
	Errored      State = "error"
	Failed       State = "failed"
	Disabled     State = "disabled"
	Unregistered State = "unregistered"
)

// next are the legal transitions.
var next = map[State][]State{
	Registered:   {Initializing},
	Initializing: {Ready, Failed},
	Ready:        {Executing, Disabled, Unregistered},
	Executing:    {Ready, Errored},
	Errored:      {Ready, Disabled},
	Failed:       {Unregistered},
	Disabled:     {Ready, Unregistered},
}

// Transition is one step in a tool's life.
type Transition struct {
	Tool string    `json:"tool"`
	From State     `json:"from,omitempty"` // empty: it was not known
	To   State     `json:"to"`
	At   time.Time `json:"at"`
	Why  string    `json:"why,omitempty"`
}

// maxTransitions bounds a tool's history; the oldest are forgotten.
const maxTransitions = 32

// Life is a tool's state and its history. It is safe for concurrent use; the nil Life of a tool
// that is not published takes part in nothing.
type Life struct {
	tool    string
	running atomic.Int64

	mu      sync.Mutex
	state   State // never Executing: that is Ready with calls that run
	history []Transition
	tell    func(Transition)
}

// Begin counts a call in, and End out.
func (l *Life) Begin() {
	if l != nil {
		l.running.Add(1)
	}
}

// End counts a call out.
func (l *Life) End() {
	if l != nil {
		l.running.Add(-1)
	}
}

// State is the current one.
func (l *Life) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now()
}

func (l *Life) now() State {
	if l.state == Ready && l.running.Load() > 0 {
		return Executing
	}
	return l.state
}

// To makes a transition. It is an error when it is not legal. A tool that is executing is ready
// as well, for the calls to come.
func (l *Life) To(to State, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.now()
	if from == Executing && to != Errored {
		from = Ready
	}
	if !slices.Contains(next[from], to) || to == Executing {
		return fmt.Errorf("the tool %s cannot become %s: it is %s", l.tool, to, from)
	}
	l.state = to
	l.record(Transition{Tool: l.tool, From: from, To: to, At: time.Now(), Why: why})
	return nil
}

func (l *Life) record(t Transition) {
	if len(l.history) == maxTransitions {
		l.history = slices.Delete(l.history, 0, 1)
	}
	l.history = append(l.history, t)
	l.tell(t)
}

// LifeStatus is a tool's life as an operator sees it.
type LifeStatus struct {
	Name    string    `json:"name"`
	Plugin  string    `json:"plugin,omitempty"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`
	Why     string    `json:"why,omitempty"`
	Running int64     `json:"running"`
	// History has the last transitions, oldest first. Calls are none.
	History []Transition `json:"history"`
}

// Status of the tool.
func (l *Life) Status() LifeStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LifeStatus{Name: l.tool, State: l.now(), Running: l.running.Load(), History: slices.Clone(l.history)}
	if n := len(l.history); n > 0 {
		s.Since, s.Why = l.history[n-1].At, l.history[n-1].Why
	}
	return s
}

// Lives are those of all tools, over the registries that follow each other. They are safe for
// concurrent use.
type Lives struct {
	// Tell hears of every transition, before the call that makes it returns. nil: nobody does.
	Tell func(Transition)

	mu sync.Mutex
	by map[string]*Life
}

// of gives a tool's life; one that is new begins.
func (l *Lives) of(name string) *Life {
	life := l.by[name]
	if life == nil {
		life = &Life{tool: name, state: Registered, tell: l.Tell}
		if life.tell == nil {
			life.tell = func(Transition) {}
		}
		life.mu.Lock()
		life.record(Transition{Tool: name, To: Registered, At: time.Now()})
		life.mu.Unlock()
		if l.by == nil {
			l.by = make(map[string]*Life)
		}
		l.by[name] = life
	}
	return life
}

// Publish has the tools of a registry live: what is new in it is registered and made ready, what
// it disables is disabled, and what it does not have is unregistered. Calls must not see the
// registry before. down reports whether a plugin is left alone, so that its tools stay disabled;
// nil: none is.
func (l *Lives) Publish(r *Registry, down func(plugin string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := r.snapshot.Load()
	for name, life := range l.by {
		if s.byName[name] != nil || s.failed[name] != nil && life.State() == Failed {
			continue
		}
		if life.State() == Errored {
			_ = life.To(Ready, "")
		}
		_ = life.To(Unregistered, "")
		delete(l.by, name)
	}
	for _, e := range s.order {
		life := l.of(e.FullName())
		if life.State() == Failed { // it is another by that name
			_ = life.To(Unregistered, "")
			delete(l.by, e.FullName())
			life = l.of(e.FullName())
		}
		e.Life = life
		if life.State() == Registered {
			_ = life.To(Initializing, "")
			_ = life.To(Ready, "")
		}
		switch {
		case e.Held != "":
			life.Leave(e.Held)
		case !e.Enabled:
			life.Leave("by the operator or its plugin")
		case down != nil && down(e.Plugin):
		case life.State() == Disabled || life.State() == Errored:
			_ = life.To(Ready, "")
		}
	}
	for name, err := range s.failed {
		if life := l.of(name); life.State() == Registered {
			_ = life.To(Initializing, "")
			_ = life.To(Failed, err.Error())
		}
	}
}

// Leave disables the tool, unless it is already.
func (l *Life) Leave(why string) {
	if l.State() != Disabled {
		_ = l.To(Disabled, why)
	}
}

// Status of all tools, sorted by name.
func (l *Lives) Status() []LifeStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]LifeStatus, 0, len(l.by))
	for _, life := range l.by {
		out = append(out, life.Status())
	}
	slices.SortFunc(out, func(a, b LifeStatus) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}
