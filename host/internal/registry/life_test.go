package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

// published creates a registry with the named tools and publishes it in lives.
func published(t *testing.T, lives *registry.Lives, enabled bool, names ...string) *registry.Registry {
	t.Helper()
	r := registry.New()
	var defs []tool.Definition
	for _, n := range names {
		defs = append(defs, def(n))
	}
	if err := r.Add("p", "", describe(defs...), false, func(string) registry.Settings { return registry.Settings{Enabled: &enabled} }); err != nil {
		t.Fatal(err)
	}
	lives.Publish(r, nil)
	return r
}

// TestOnlyLegalTransitions checks that every illegal transition returns an error and does not change the state.
func TestOnlyLegalTransitions(t *testing.T) {
	all := []registry.State{registry.Registered, registry.Initializing, registry.Ready, registry.Executing, registry.Errored, registry.Failed, registry.Disabled, registry.Unregistered}
	legal := map[string]bool{
		"ready disabled": true, "ready unregistered": true, "executing error": true,
		"executing disabled": true, "executing unregistered": true, // legal, because an executing tool accepts further calls
		"error ready": true, "error disabled": true, "disabled ready": true, "disabled unregistered": true,
	}
	reach := map[registry.State]func(l *registry.Life){
		registry.Ready:     func(*registry.Life) {},
		registry.Executing: func(l *registry.Life) { l.Begin() },
		registry.Errored: func(l *registry.Life) {
			l.Begin()
			if err := l.To(registry.Errored, "it ended"); err != nil {
				t.Fatal(err)
			}
			l.End()
		},
		registry.Disabled: func(l *registry.Life) { l.Leave("") },
		registry.Unregistered: func(l *registry.Life) {
			if err := l.To(registry.Unregistered, ""); err != nil {
				t.Fatal(err)
			}
		},
	}
	for from, arrive := range reach {
		for _, to := range all {
			l := published(t, new(registry.Lives), true, "x").Lookup("", "x").Life
			arrive(l)
			if l.State() != from {
				t.Fatalf("it is %s, not %s", l.State(), from)
			}
			err := l.To(to, "")
			if want := legal[fmt.Sprint(from, " ", to)]; (err == nil) != want {
				t.Errorf("%s → %s: %v", from, to, err)
			}
			if err != nil && l.State() != from {
				t.Errorf("%s → %s was refused, and left it %s", from, to, l.State())
			}
			if err == nil && l.State() != to {
				t.Errorf("%s → %s left it %s", from, to, l.State())
			}
		}
	}
}

func TestLives(t *testing.T) {
	var notified []string
	lives := &registry.Lives{Notify: func(t registry.Transition) {
		notified = append(notified, fmt.Sprintf("%s %s→%s", t.Tool, t.From, t.To))
	}}
	expect := func(want ...string) {
		t.Helper()
		if got := strings.Join(notified, ", "); got != strings.Join(want, ", ") {
			t.Errorf("\n got %s\nwant %s", got, strings.Join(want, ", "))
		}
		notified = nil
	}
	first := published(t, lives, true, "a", "b")
	expect("a →registered", "a registered→initializing", "a initializing→ready", "b →registered", "b registered→initializing", "b initializing→ready")
	// The tool must keep its history in the next registry.
	second := published(t, lives, true, "a")
	expect("b ready→unregistered")
	if first.Lookup("", "a").Life != second.Lookup("", "a").Life {
		t.Error("it is another life")
	}
	published(t, lives, false, "a")
	expect("a ready→disabled")
	third := published(t, lives, true, "a")
	expect("a disabled→ready")
	l := third.Lookup("", "a").Life
	l.Begin()
	_ = l.To(registry.Errored, "it ended")
	l.End()
	published(t, lives, true, "b")
	expect("a executing→error", "a error→ready", "a ready→unregistered", "b →registered", "b registered→initializing", "b initializing→ready")
	// A tool with an invalid definition stays failed until a later registry contains a valid definition.
	bad := registry.New()
	broken := def("c")
	broken.Input = []byte("{")
	if err := bad.Add("p", "", describe(broken, def("b")), false, asItSays); err == nil {
		t.Fatal("it was registered")
	}
	lives.Publish(bad, nil)
	expect("c →registered", "c registered→initializing", "c initializing→failed")
	if st := lives.Status(); len(st) != 2 || st[1].State != registry.Failed || st[1].Why == "" {
		t.Errorf("%+v", st)
	}
	published(t, lives, true, "b", "c")
	expect("c failed→unregistered", "c →registered", "c registered→initializing", "c initializing→ready")
}

// TestPublishWhileDown checks that the tools of a suspended plugin stay disabled. A tool in the state error must become
// ready with the next registry.
func TestPublishWhileDown(t *testing.T) {
	lives := new(registry.Lives)
	r := published(t, lives, true, "x")
	l := r.Lookup("", "x").Life
	l.Leave("it ends again and again")
	lives.Publish(r, func(plugin string) bool { return plugin == "p" })
	if l.State() != registry.Disabled {
		t.Error(l.State())
	}
	lives.Publish(r, nil)
	if l.State() != registry.Ready {
		t.Error(l.State())
	}
	l.Begin()
	_ = l.To(registry.Errored, "")
	l.End()
	lives.Publish(r, nil)
	if l.State() != registry.Ready {
		t.Error(l.State())
	}
}

func TestHistoryIsBounded(t *testing.T) {
	l := published(t, new(registry.Lives), true, "x").Lookup("", "x").Life
	for i := range 100 {
		_ = l.To(registry.Disabled, fmt.Sprint(i))
		_ = l.To(registry.Ready, fmt.Sprint(i))
	}
	if h := l.Status().History; len(h) != 32 || h[31].Why != "99" {
		t.Errorf("%d transitions, the last %+v", len(h), h[len(h)-1])
	}
}

func TestCallsAreCounted(t *testing.T) {
	l := published(t, new(registry.Lives), true, "x").Lookup("", "x").Life
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				l.Begin()
				if l.State() != registry.Executing {
					t.Error("a call runs, and it is", l.State())
				}
				l.End()
			}
		})
	}
	wg.Wait()
	if st := l.Status(); st.State != registry.Ready || st.Running != 0 || len(st.History) != 3 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkLife measures the cost per call of the state of a tool.
func BenchmarkLife(b *testing.B) {
	r := registry.New()
	if err := r.Add("p", "", describe(def("x")), false, asItSays); err != nil {
		b.Fatal(err)
	}
	new(registry.Lives).Publish(r, nil)
	l := r.Lookup("", "x").Life
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Begin()
			l.End()
		}
	})
}
