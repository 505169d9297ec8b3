package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/host/internal/scheduler"
)

func read(paths ...string) scheduler.Claim {
	return scheduler.Claim{Kind: scheduler.Read, Paths: paths}
}

func readHere(paths ...string) scheduler.Claim {
	return scheduler.Claim{Kind: scheduler.Read, Paths: paths, UsesDir: true}
}

func edit(paths ...string) scheduler.Claim {
	return scheduler.Claim{Kind: scheduler.Edit, Paths: paths}
}

var (
	free  = scheduler.Claim{Kind: scheduler.Free}
	alone = scheduler.Claim{Kind: scheduler.Alone}
	tests = scheduler.Claim{Kind: scheduler.Shell}              // the command "npm test"
	cd    = scheduler.Claim{Kind: scheduler.Shell, Moves: true} // the command "cd x && make"
	log   = scheduler.Claim{Kind: scheduler.Shell, Paths: []string{"/w/log"}}
	undo  = scheduler.Claim{Kind: scheduler.Edit, Anywhere: true}
)

// TestReasons checks at least one case for each row of the table, and the pairs that must not wait.
func TestReasons(t *testing.T) {
	const no, yes, brief = "", "yes", "brief"
	for _, c := range []struct {
		name           string
		earlier, later scheduler.Claim
		want           string
	}{
		// Cases with a command that cannot change the session.
		{"test, then an absolute read", tests, read("/w/a"), no},
		{"test, then a relative read", tests, readHere("/w/a"), no},
		{"test, then a free call", tests, free, no},
		{"a command that writes the file", log, read("/w/log"), yes},
		{"a command that writes a file below", log, readHere("/w"), yes},
		{"a command that writes another file", log, read("/w/logs"), no},
		// Cases with a command that can change the working directory.
		{"cd, then an absolute read", cd, read("/w/a"), no},
		{"cd, then a relative read", cd, readHere("/w/a"), brief},
		{"cd, then a read without a path", cd, scheduler.Claim{Kind: scheduler.Read, UsesDir: true}, brief},
		{"cd, then a free call", cd, free, no},
		// Cases with two arbitrary commands.
		{"test, then a command", tests, tests, yes},
		{"cd, then a command", cd, tests, yes},
		{"test, then an edit", tests, edit("/w/a"), yes},
		{"test, then undo", tests, undo, yes},
		// Cases with changes of files.
		{"an edit, then a read of the file", edit("/w/a"), read("/w/a"), yes},
		{"an edit, then a search above", edit("/w/sub/a"), readHere("/w"), yes},
		{"an edit, then another file", edit("/w/a"), read("/w/ab"), no},
		{"an edit, then its file again", edit("/w/a"), edit("/w/a"), yes},
		{"an edit, then an edit of another file", edit("/w/a"), edit("/w/b"), no},
		{"an edit, then undo", edit("/w/a"), undo, yes},
		{"undo, then an edit", undo, edit("/w/a"), yes},
		{"an edit, then a command", edit("/w/a"), tests, yes},
		{"an edit, then a free call", edit("/w/a"), free, no},
		{"an edit, then a read without files", edit("/w/a"), scheduler.Claim{Kind: scheduler.Read, UsesDir: true}, no},
		{"an edit below the root", edit("/a"), read("/"), yes},
		// Cases in which a read precedes a call that could change its result.
		{"a read, then a read", read("/w/a"), read("/w/a"), no},
		{"a read, then an edit of the file", read("/w/a"), edit("/w/a"), yes},
		{"a read, then an edit of another", read("/w/a"), edit("/w/b"), no},
		{"a read, then a command", read("/w/a"), tests, yes},
		{"a read without files, then a command", scheduler.Claim{Kind: scheduler.Read}, cd, no},
		// Cases with free calls.
		{"a free call, then a command", free, cd, no},
		{"a free call, then an edit", free, edit("/w/a"), no},
		{"a free call, then one that runs alone", free, alone, no},
		{"two free calls", free, free, no},
		// Cases with tools of unknown effect.
		{"alone, then alone", alone, alone, yes},
		{"alone, then a read", alone, read("/w/a"), yes},
		{"alone, then an edit", alone, edit("/w/a"), yes},
		{"alone, then a command", alone, tests, yes},
		{"alone, then a free call", alone, free, no},
		{"a read, then alone", read("/w/a"), alone, yes},
		{"an edit, then alone", edit("/w/a"), alone, yes},
		{"a command, then alone", tests, alone, yes},
		// Cases with batches.
		{"a batch: safe, then safe", scheduler.Claim{InOrder: true, Safe: true}, scheduler.Claim{InOrder: true, Safe: true}, no},
		{"a batch: safe, then not", scheduler.Claim{InOrder: true, Safe: true}, scheduler.Claim{InOrder: true}, yes},
		{"a batch: free, but not safe", scheduler.Claim{InOrder: true, Kind: scheduler.Shell}, scheduler.Claim{InOrder: true, Kind: scheduler.Free}, yes},
		{"a batch: a command, then job list", scheduler.Claim{InOrder: true, Kind: scheduler.Shell}, free, no},
		{"a batch: a command that starts a job, then job list", scheduler.Claim{InOrder: true, Kind: scheduler.Shell, StartsJob: true}, free, yes},
		{"a batch: job kill, then a command", free, scheduler.Claim{InOrder: true, Kind: scheduler.Shell}, yes},
		{"a command that starts a job, then job list", scheduler.Claim{Kind: scheduler.Shell, StartsJob: true}, free, no},
		{"a call behind a batch", scheduler.Claim{InOrder: true, Kind: scheduler.Shell}, read("/w/a"), yes},
	} {
		got := scheduler.Why(&c.earlier, &c.later)
		if got.Waits() != (c.want != no) || got.Brief != (c.want == brief) {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}

// randomClaim returns a random claim with paths in a small tree.
func randomClaim(rng *rand.Rand) scheduler.Claim {
	c := scheduler.Claim{Kind: scheduler.Kind(rng.IntN(5)), UsesDir: rng.IntN(2) == 0, Anywhere: rng.IntN(8) == 0}
	for range rng.IntN(3) {
		c.Paths = append(c.Paths, []string{"/w", "/w/a", "/w/a/b", "/w/c"}[rng.IntN(4)])
	}
	c.Moves = c.Kind == scheduler.Shell && rng.IntN(2) == 0
	return c
}

// simulation is a simple model of the queue of a session. A call runs as soon as no earlier call gives it a
// reason to wait.
type simulation struct {
	claims  []scheduler.Claim
	ended   []bool
	running []bool
	limit   int
}

func (m *simulation) add(c scheduler.Claim) {
	for i := range m.claims {
		c.Anywhere = c.Anywhere || c.UsesDir && !m.ended[i] && m.claims[i].Moves
	}
	m.claims, m.ended, m.running = append(m.claims, c), append(m.ended, false), append(m.running, false)
}

func (m *simulation) advance() {
	for i := range m.claims {
		counted := 0
		for j := range m.claims {
			if m.running[j] && m.claims[j].Kind != scheduler.Free {
				counted++
			}
		}
		start := !m.ended[i] && !m.running[i] && (counted < m.limit || m.claims[i].Kind == scheduler.Free)
		for j := range i {
			start = start && (m.ended[j] || !scheduler.Why(&m.claims[j], &m.claims[i]).Waits())
		}
		m.running[i] = m.running[i] || start
	}
}

// TestLineAgainstSimulation applies random arrivals, ends, cancellations and announcements to a line and to the
// simulation. The same calls must run in the line and in the simulation. A call must wait exactly if it has a reason to
// wait.
func TestLineAgainstSimulation(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 400 {
		m := &simulation{limit: 1 + rng.IntN(4)}
		s := scheduler.New(m.limit)
		s.Patience = time.Hour
		var tickets []*scheduler.Ticket
		done := make(map[int]func())
		for range 50 {
			i := rng.IntN(len(tickets) + 1)
			switch {
			case i == len(tickets) || rng.IntN(3) == 0:
				c := randomClaim(rng)
				k := s.Enqueue("s")
				k.Claim(c)
				tickets = append(tickets, k)
				m.add(c)
			case m.ended[i]:
				continue
			case m.running[i] && rng.IntN(3) == 0:
				tickets[i].Keeps()
				m.claims[i].Moves = false
			case m.running[i]:
				done[i]()
				m.ended[i], m.running[i] = true, false
			default:
				tickets[i].Abandon()
				m.ended[i] = true
			}
			m.advance()
			for i := range tickets {
				if _, waits := tickets[i].Waiting(); !m.ended[i] && waits == m.running[i] {
					t.Fatalf("call %d %+v: it waits: %t, and it should run: %t", i, m.claims[i], waits, m.running[i])
				}
				if m.running[i] && done[i] == nil {
					done[i] = wait(t, tickets[i])
				}
			}
		}
	}
}

// TestABriefWaitEnds checks a read that waits for an earlier command that can change the working directory. The read
// must start when its patience ends, and Passed must return the label of the command.
func TestABriefWaitEnds(t *testing.T) {
	s := scheduler.New(4)
	s.Patience = time.Nanosecond
	c := cd
	c.Label = func() string { return "bash: cd x && make" }
	k := s.Enqueue("s")
	k.Claim(c)
	defer wait(t, k)()
	late := s.Enqueue("s")
	late.Claim(readHere("/w/a"))
	if w, waits := late.Waiting(); !waits || w.String() != "bash: cd x && make (the command can change the directory)" {
		t.Errorf("%+v", w)
	}
	defer wait(t, late)()
	if label, ok := late.Passed(); !ok || label != "bash: cd x && make" {
		t.Errorf("%q %t", label, ok)
	}
	if calls := s.Calls(); len(calls) != 2 || !calls[0].Running || !calls[1].Running || calls[1].Reason != "" {
		t.Errorf("%+v", calls)
	}
	// An edit, in contrast, must wait until the command has ended.
	other := s.Enqueue("s")
	other.Claim(edit("/w/a"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := other.Wait(ctx); err == nil || other.WaitedFor().Label != "bash: cd x && make" {
		t.Errorf("%v, %+v", err, other.WaitedFor())
	}
}

// TestACallThatArrivesLate checks which calls follow a call that ended between their arrival and their claim. A call
// that can use the directory of a command then counts as one that can use any path, because its paths are not known
// yet.
func TestACallThatArrivesLate(t *testing.T) {
	for _, tc := range []struct {
		name           string
		earlier, later scheduler.Claim
		follows        bool
	}{
		{"a command", cd, readHere("/w/a"), true}, {"an edit", edit("/w/a"), edit("/w/b"), true}, {"a read", readHere("/w/a"), edit("/w/b"), false},
	} {
		s := scheduler.New(4)
		k := s.Enqueue("s")
		k.Claim(tc.earlier)
		late := s.Enqueue("s")
		wait(t, k)()
		later := s.Enqueue("s")
		late.Claim(tc.later)
		later.Claim(edit("/w/c"))
		if late.Follows() != tc.follows || late.Waits() || later.Follows() != (tc.later.Kind == scheduler.Edit && tc.follows && later.Waits()) {
			t.Errorf("%s: follows %t, waits %t; the next follows %t", tc.name, late.Follows(), late.Waits(), later.Follows())
		}
		if waits := tc.name == "a command"; later.Waits() != waits {
			t.Errorf("%s: the next waits: %t", tc.name, later.Waits())
		}
	}
}

// TestPatience checks how long a read waits for an earlier command that can change the working directory.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(4)
		k := s.Enqueue("s")
		k.Claim(cd)
		done, err := k.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		late := s.Enqueue("s")
		late.Claim(readHere("/w/a"))
		began := time.Now()
		leave, err := late.Wait(t.Context())
		if err != nil || time.Since(began) != scheduler.DefaultPatience {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		leave()
	})
}

// TestFreeCallsAreAlwaysReachable checks that a free call starts at once: behind calls of every kind, before an earlier
// call is described, and while the session runs its maximum number of calls.
func TestFreeCallsAreAlwaysReachable(t *testing.T) {
	s := scheduler.New(1)
	for _, c := range []scheduler.Claim{alone, cd, edit("/w/a"), readHere("/w"), tests} {
		s.Enqueue("s").Claim(c)
	}
	s.Enqueue("s")
	k := s.Enqueue("s")
	k.Claim(free)
	wait(t, k)()
}

// TestLongBatches checks that the calls of a long batch keep their order if they end in random order.
func TestLongBatches(t *testing.T) {
	s := scheduler.New(10)
	var mu sync.Mutex
	var log []string
	var wg sync.WaitGroup
	for i := range 500 {
		safe := i%5 > 0
		k := enqueue(s, "s", safe)
		wg.Go(func() {
			done, err := k.Wait(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			log = append(log, fmt.Sprintf("%d", i))
			mu.Unlock()
			done()
		})
	}
	wg.Wait()
	for i := 0; i < 500; i += 5 {
		at := slices.Index(log, fmt.Sprint(i))
		if at != i {
			t.Fatalf("call %d ran at %d: %s", i, at, strings.Join(log, " "))
		}
	}
}
