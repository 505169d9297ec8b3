package registry

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// State is a step in the life of a tool:
//
//	[*] → registered → initializing → ready ⇄ executing
//	                        ↓          ⇅ ↖        ↓
//	                      failed   disabled ←── error
//	                        ↓          ↓
//	                        unregistered → [*]
//
// The transition ready → unregistered is also legal. The slanted arrow is the transition error → ready. No other
// transition is legal.
//
// A tool is ready if it can be called, even if its plugin does not run yet, because a call starts the plugin. A
// tool is executing while its calls run. Calls are counted but not recorded, to keep them fast. If a tool's plugin ends
// during a call, the tool is in the state "error" until the plugin runs again. A tool is disabled by the operator, or
// while its plugin is suspended.
type State string

// States in the life of a tool.
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

// The map "next" contains the states that can follow each state.
var next = map[State][]State{
	Registered:   {Initializing},
	Initializing: {Ready, Failed},
	Ready:        {Executing, Disabled, Unregistered},
	Executing:    {Ready, Errored},
	Errored:      {Ready, Disabled},
	Failed:       {Unregistered},
	Disabled:     {Ready, Unregistered},
}

// Transition is a change of a tool's state.
type Transition struct {
	Tool string    `json:"tool"`
	From State     `json:"from,omitempty"` // empty for a new tool
	To   State     `json:"to"`
	At   time.Time `json:"at"`
	Why  string    `json:"why,omitempty"`
}

// maxTransitions is the maximum length of a tool's history. A longer history loses its oldest transitions.
const maxTransitions = 32

// Life holds a tool's state and history. It is safe for concurrent use. The methods Begin and End accept a nil Life,
// because a tool has no Life before its publication.
type Life struct {
	tool    string
	running atomic.Int64

	mu      sync.Mutex
	state   State // never Executing; the state is Executing if calls run and the field is Ready
	history []Transition
	notify  func(Transition)
}

// Begin increments the number of running calls. It must be called at the start of each call.
func (l *Life) Begin() {
	if l != nil {
		l.running.Add(1)
	}
}

// End decrements the number of running calls. It must be called at the end of each call.
func (l *Life) End() {
	if l != nil {
		l.running.Add(-1)
	}
}

// State returns the current state.
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

// To changes the state. It returns an error for an illegal transition. While the tool is executing, the transitions
// from Ready are also legal, because the tool accepts further calls.
func (l *Life) To(to State, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.now()
	if from == Executing && to != Errored {
		from = Ready
	}
	if !slices.Contains(next[from], to) || to == Executing {
		return fmt.Errorf("tool %s: invalid transition from %s to %s", l.tool, from, to)
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
	l.notify(t)
}

// LifeStatus describes the state of a tool for the operator.
type LifeStatus struct {
	Name    string    `json:"name"`
	Plugin  string    `json:"plugin,omitempty"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`
	Why     string    `json:"why,omitempty"`
	Running int64     `json:"running"`
	// History lists the last transitions, oldest first. It does not contain the transitions to and from Executing.
	History []Transition `json:"history"`
}

// Status returns the state of the tool.
func (l *Life) Status() LifeStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LifeStatus{Name: l.tool, State: l.now(), Running: l.running.Load(), History: slices.Clone(l.history)}
	if n := len(l.history); n > 0 {
		s.Since, s.Why = l.history[n-1].At, l.history[n-1].Why
	}
	return s
}

// Lives holds the states of all tools, including tools of earlier registries. It is safe for concurrent use.
type Lives struct {
	// Notify is called for each transition before the method that causes the transition returns. Notify can be nil.
	Notify func(Transition)

	mu sync.Mutex
	by map[string]*Life
}

// lifeOf returns the life of a tool. It creates a life for a new tool.
func (l *Lives) lifeOf(name string) *Life {
	life := l.by[name]
	if life == nil {
		life = &Life{tool: name, state: Registered, notify: l.Notify}
		if life.notify == nil {
			life.notify = func(Transition) {}
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

// Publish updates the states for a new registry. New tools become ready, tools that the registry disables become
// disabled, and missing tools become unregistered. Calls must not use the registry before Publish. The function
// "suspended" reports whether a plugin is suspended. The tools of a suspended plugin stay disabled. A nil function
// means that no plugin is suspended.
func (l *Lives) Publish(r *Registry, suspended func(plugin string) bool) {
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
		life := l.lifeOf(e.FullName())
		if life.State() == Failed { // another tool now has the name of the failed tool
			_ = life.To(Unregistered, "")
			delete(l.by, e.FullName())
			life = l.lifeOf(e.FullName())
		}
		e.Life = life
		if life.State() == Registered {
			_ = life.To(Initializing, "")
			_ = life.To(Ready, "")
		}
		switch {
		case e.PendingApproval != "":
			life.Leave(e.PendingApproval)
		case !e.Enabled:
			life.Leave("by the operator or its plugin")
		case suspended != nil && suspended(e.Plugin):
		case life.State() == Disabled || life.State() == Errored:
			_ = life.To(Ready, "")
		}
	}
	for name, err := range s.failed {
		if life := l.lifeOf(name); life.State() == Registered {
			_ = life.To(Initializing, "")
			_ = life.To(Failed, err.Error())
		}
	}
}

// Leave disables the tool. It does nothing for a tool that is already disabled.
func (l *Life) Leave(why string) {
	if l.State() != Disabled {
		_ = l.To(Disabled, why)
	}
}

// Status returns the states of all tools, sorted by name.
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
