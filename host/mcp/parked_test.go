package mcp

import (
	"testing"
	"time"
)

// TestParkedCallsOfOthers checks that the parked calls of a principal do not displace those of another one.
func TestParkedCallsOfOthers(t *testing.T) {
	l := newParkedCalls(time.Hour)
	park := func(owner string) error {
		_, err := l.park(&run{owner: owner, stop: func(error) {}, done: closed}, nil)
		return err
	}
	for range maxParked {
		if err := park("a"); err != nil {
			t.Fatal(err)
		}
	}
	if park("a") == nil {
		t.Error("a principal has more parked calls than it may have")
	}
	if err := park("b"); err != nil {
		t.Error(err)
	}
	l.close()
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
