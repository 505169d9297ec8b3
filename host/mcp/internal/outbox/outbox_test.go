package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/mcp/internal/outbox"
)

// pipe is a stream whose writes block until the test permits them.
type pipe struct {
	permits chan error
	mu      sync.Mutex
	writes  []string
}

func (p *pipe) Write(b []byte) (int, error) {
	if err := <-p.permits; err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, string(b))
	return len(b), nil
}

// TestCollected checks that messages that arrive during a write are written together and in order afterwards, and that
// Write waits until its message is written.
func TestCollected(t *testing.T) {
	p := &pipe{permits: make(chan error)}
	o := outbox.New(p)
	var all sync.WaitGroup
	p.mu.Lock()
	all.Go(func() { o.Post([]byte("first\n")) })
	// The first write has begun, and cannot end yet.
	p.permits <- nil
	for i := range 3 {
		o.Post(fmt.Appendf(nil, "%d\n", i)) // must return at once
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		if n, err := o.Write([]byte("last\n")); n != 5 || err != nil {
			t.Error(n, err)
		}
	}()
	select {
	case <-written:
		t.Error("Write returned before its message was written")
	case <-time.After(20 * time.Millisecond):
	}
	p.mu.Unlock()
	p.permits <- nil
	<-written
	all.Wait()
	o.Wait()
	if got := strings.Join(p.writes, "|"); got != "first\n|0\n1\n2\nlast\n" {
		t.Errorf("%q", got)
	}
}

// TestFullOutbox checks that the host keeps only a limited number of messages for a client that reads slowly.
func TestFullOutbox(t *testing.T) {
	p := &pipe{permits: make(chan error)}
	o := outbox.New(p)
	message := bytes.Repeat([]byte("x"), 300<<10)
	posted := make(chan struct{}, 100)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			o.Post(message)
			posted <- struct{}{}
		})
	}
	time.Sleep(50 * time.Millisecond)
	if n := len(posted); n > 4 {
		t.Errorf("%d messages of 300 KiB are kept", n)
	}
	close(p.permits)
	all.Wait()
	o.Wait()
	total := 0
	for _, w := range p.writes {
		total += len(w)
	}
	if total != 20*len(message) {
		t.Errorf("%d bytes were written", total)
	}
}

// TestBrokenStream checks that a failed write is reported to the callers of Write, and that no caller waits forever.
func TestBrokenStream(t *testing.T) {
	broken := errors.New("broken")
	p := &pipe{permits: make(chan error, 1)}
	o := outbox.New(p)
	p.permits <- broken
	if _, err := o.Write([]byte("a")); !errors.Is(err, broken) {
		t.Error(err)
	}
	o.Post([]byte("b"))
	if _, err := o.Write([]byte("c")); !errors.Is(err, broken) {
		t.Error(err)
	}
	o.Wait()
}
