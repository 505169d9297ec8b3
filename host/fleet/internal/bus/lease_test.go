package bus_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/testnats"
)

// clock is a clock that a test can set ahead.
type clock struct {
	began time.Time
	ahead atomic.Int64
}

func (c *clock) now() time.Duration { return time.Since(c.began) + time.Duration(c.ahead.Load()) }

type node struct {
	*lease.Keeper
	clock *clock
	lost  atomic.Int64
	end   context.CancelFunc
}

func start(t *testing.T, b *bus.Bus, name string, edit func(*lease.Settings)) (*node, error) {
	t.Helper()
	n := &node{clock: &clock{began: time.Now().Add(-time.Hour)}}
	s := lease.Settings{Lease: time.Second, Clock: n.clock.now, Renewed: func(time.Duration) {}, Lost: func() { n.lost.Add(1) }, Log: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&s)
	}
	n.Keeper = lease.New(b.Nodes, lease.Record{Node: name, Address: name, Certificate: []byte(name + b.Conn.Opts.Name), State: lease.StateReady}, s)
	if err := n.Join(t.Context()); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(t.Context())
	n.end = end
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		end()
		<-done
	})
	return n, n.Loaded(t.Context())
}

func mustStart(t *testing.T, b *bus.Bus, name string, edit func(*lease.Settings)) *node {
	t.Helper()
	n, err := start(t, b, name, edit)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDeadNodeIsFenced checks that a node that no longer renews its lease is fenced by another node. It also checks
// that the other node can then forget the dead node.
func TestDeadNodeIsFenced(t *testing.T) {
	s := testnats.Server(t, nil)
	one, two := mustStart(t, connect(t, s, "one", 0), "one", nil), mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil && two.Peer("one") != nil })
	old := two.Own().Incarnation
	two.end()
	living := one.Living("two")
	testnats.Eventually(t, "the dead node is fenced", func() bool { return one.Peer("two").Ended(old) })
	if living.Err() == nil {
		t.Error("the context of the dead node has not ended")
	}
	if err := one.Forget(t.Context(), "two"); err != nil {
		t.Error(err)
	}
}

// TestLeaseEndsByItsOwnClock checks a node that cannot renew its lease. It must end its incarnation when its own clock
// says so, without another node, and then get a new lease.
func TestLeaseEndsByItsOwnClock(t *testing.T) {
	n := mustStart(t, connect(t, testnats.Server(t, nil), "one", 0), "one", nil)
	old, ctx, ok := n.Incarnation()
	if !ok {
		t.Fatal("no lease")
	}
	n.clock.ahead.Add(int64(10 * time.Second)) // the machine was suspended
	if _, _, ok := n.Incarnation(); ok {
		t.Error("the lease is valid after its end")
	}
	testnats.Eventually(t, "the incarnation ends", func() bool { return n.lost.Load() > 0 && ctx.Err() != nil })
	testnats.Eventually(t, "a new incarnation has a lease", func() bool {
		now, _, ok := n.Incarnation()
		return ok && now != old
	})
}

// TestNamesAreUnique checks that a second node with the same name is refused while the first node lives.
func TestNamesAreUnique(t *testing.T) {
	s := testnats.Server(t, nil)
	mustStart(t, connect(t, s, "one", 0), "same", nil)
	_, err := start(t, connect(t, s, "two", 0), "same", nil)
	var taken *lease.NameTakenError
	if !errors.As(err, &taken) {
		t.Errorf("two nodes of one name: %v", err)
	}
}

// TestFenceCommand checks that other nodes can take the sessions of a dead node only after the fence command has
// succeeded.
func TestFenceCommand(t *testing.T) {
	s := testnats.Server(t, nil)
	dir := t.TempDir()
	script := filepath.Join(dir, "fence")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$1 $2\" >> "+dir+"/said\ntest -e "+dir+"/allowed\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	one := mustStart(t, connect(t, s, "one", 0), "one", func(s *lease.Settings) { s.Fence = []string{script, "cut"} })
	two := mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	two.end()
	testnats.Eventually(t, "the command fails", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "said"))
		return strings.Contains(string(b), "cut two")
	})
	if one.Peer("two").Ended(old) {
		t.Error("the sessions can be taken although the command failed")
	}
	if err := os.WriteFile(filepath.Join(dir, "allowed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testnats.Eventually(t, "the command succeeds", func() bool { return one.Peer("two").Ended(old) })
}

// TestFenceCommandOfAnotherNode checks that only one node runs the fence command for a dead node. If that node ends
// before the command succeeds, another node must run the command.
func TestFenceCommandOfAnotherNode(t *testing.T) {
	s := testnats.Server(t, nil)
	fails := func(s *lease.Settings) { s.Fence = []string{"false"} }
	one, two := mustStart(t, connect(t, s, "one", 0), "one", fails), mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	two.end()
	testnats.Eventually(t, "the dead node is fenced", func() bool { return one.Peer("two").Fenced })
	three := mustStart(t, connect(t, s, "three", 0), "three", func(s *lease.Settings) { s.Fence = []string{"true"} })
	time.Sleep(500 * time.Millisecond)
	if three.Peer("two").Ended(old) {
		t.Error("two nodes cut the dead one off at once")
	}
	one.end()
	testnats.Eventually(t, "another node cuts the dead one off", func() bool { return three.Peer("two").Ended(old) })
}

// TestFenceCommandHangs checks that a fence command that hangs for one node does not keep another dead node from being
// cut off, and that nothing of it remains when its node ends.
func TestFenceCommandHangs(t *testing.T) {
	s := testnats.Server(t, nil)
	script, pipe := filepath.Join(t.TempDir(), "fence"), filepath.Join(t.TempDir(), "pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(script, []byte("#!/bin/sh\ntest $1 != hangs || { sleep 1000 > "+pipe+" & wait; }\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	fence := func(s *lease.Settings) { s.Fence = []string{script} }
	one, hangs, dies := mustStart(t, connect(t, s, "one", 0), "one", fence), mustStart(t, connect(t, s, "hangs", 0), "hangs", fence), mustStart(t, connect(t, s, "dies", 0), "dies", fence)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("hangs") != nil && one.Peer("dies") != nil })
	hangs.end()
	testnats.Eventually(t, "the first dead node is fenced", func() bool { return one.Peer("hangs").Fenced })
	old := dies.Own().Incarnation
	dies.end()
	testnats.Eventually(t, "the second dead node is cut off", func() bool { return one.Peer("dies").Ended(old) })
	if one.Peer("hangs").Cut {
		t.Error("the command does not hang")
	}
	sleeps, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer sleeps.Close()
	one.end()
	if _, err := sleeps.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // it ends when no process has the pipe
		t.Error(err)
	}
}

// TestForgetWaitsForFenceCommand checks that a fenced node cannot be forgotten, and that no other node gets its name,
// before the fence command has succeeded. Both would let other nodes take its sessions. An operator's word takes the
// place of the command.
func TestForgetWaitsForFenceCommand(t *testing.T) {
	s := testnats.Server(t, nil)
	one := mustStart(t, connect(t, s, "one", 0), "one", func(s *lease.Settings) { s.Fence = []string{"false"} })
	two := mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	two.end()
	testnats.Eventually(t, "the dead node is fenced", func() bool { return one.Peer("two").Fenced })
	if err := one.Forget(t.Context(), "two"); err == nil || !strings.Contains(err.Error(), "--i-have-fenced-it") {
		t.Errorf("the node is forgotten before the command succeeded: %v", err)
	}
	if _, err := start(t, connect(t, s, "other", 0), "two", nil); err == nil || !strings.Contains(err.Error(), "Mend the command") {
		t.Errorf("another node gets the name before the command succeeded: %v", err)
	}
	if p := one.Peer("two"); p == nil || p.Ended(old) {
		t.Fatal("the sessions can be taken although the command failed")
	}
	testnats.Eventually(t, "the operator's word counts", func() bool { // a try of the command can be in the way
		return one.TakeOver(t.Context(), "two") == nil
	})
	if !one.Peer("two").Ended(old) {
		t.Error("the operator's word has no effect")
	}
	if err := one.Forget(t.Context(), "two"); err != nil {
		t.Error(err)
	}
}

// TestCopiedNode checks that a node with the name of another node, but at another place, is refused while the other
// node lives. Afterwards, it must wait for the end of the other node's lease. A later run at the same place gets the
// lease at once.
func TestCopiedNode(t *testing.T) {
	s := testnats.Server(t, nil)
	b := connect(t, s, "one", 0)
	record := func(place string) lease.Record {
		return lease.Record{Node: "one", Address: place, Certificate: []byte("key"), Place: place, State: lease.StateReady}
	}
	settings := lease.Settings{Lease: time.Second, Clock: (&clock{began: time.Now().Add(-time.Hour)}).now, Renewed: func(time.Duration) {}, Lost: func() {}, Log: slog.New(slog.DiscardHandler)}
	node := lease.New(b.Nodes, record("here"), settings)
	if err := node.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		node.Run(ctx)
	}()
	var taken *lease.NameTakenError
	if err := lease.New(b.Nodes, record("there"), settings).Join(t.Context()); !errors.As(err, &taken) || !taken.Copy {
		t.Errorf("a copy of a node that lives: %v", err)
	}
	end()
	<-ran
	began := time.Now()
	if err := lease.New(b.Nodes, record("there"), settings).Join(t.Context()); err != nil || time.Since(began) < settings.Lease {
		t.Errorf("the node at another place had the lease after %s: %v", time.Since(began), err)
	}
	began = time.Now()
	if err := lease.New(b.Nodes, record("there"), settings).Join(t.Context()); err != nil || time.Since(began) > settings.Lease {
		t.Errorf("the next run had the lease after %s: %v", time.Since(began), err)
	}
}

// TestManualTakeover checks that with the setting "Manual", a node is declared dead only by an operator.
func TestManualTakeover(t *testing.T) {
	s := testnats.Server(t, nil)
	one := mustStart(t, connect(t, s, "one", 0), "one", func(s *lease.Settings) { s.Manual = true })
	two := mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	two.end()
	time.Sleep(2 * time.Second)
	if one.Peer("two").Ended(old) {
		t.Error("the node was declared dead")
	}
	if err := one.TakeOver(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	if !one.Peer("two").Ended(old) {
		t.Error("the operator's word has no effect")
	}
}

// TestForgottenNodeComesBack checks that a node gets a new lease if it still runs after it was fenced and forgotten.
func TestForgottenNodeComesBack(t *testing.T) {
	s := testnats.Server(t, nil)
	one, two := mustStart(t, connect(t, s, "one", 0), "one", nil), mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	if err := one.Fence(t.Context(), "two", 0); err != nil {
		t.Fatal(err)
	}
	_ = one.Forget(t.Context(), "two") // ignore the error: the node may already have a new lease
	testnats.Eventually(t, "the node has a lease again", func() bool {
		now, _, ok := two.Incarnation()
		return ok && now != old && one.Peer("two") != nil && one.Peer("two").Incarnation == now
	})
}

func TestLeave(t *testing.T) {
	s := testnats.Server(t, nil)
	one, two := mustStart(t, connect(t, s, "one", 0), "one", nil), mustStart(t, connect(t, s, "two", 0), "two", nil)
	testnats.Eventually(t, "the nodes know each other", func() bool { return one.Peer("two") != nil })
	old := two.Own().Incarnation
	if err := two.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	testnats.Eventually(t, "the sessions can be taken", func() bool { return one.Peer("two").Ended(old) })
}
