package call

import (
	"context"
	"errors"
	"testing"
)

// TestRoomIsGivenBack checks that the room of a result is given back when its call ends or is repeated, and that a
// canceled call leaves the line.
func TestRoomIsGivenBack(t *testing.T) {
	first, second := new(Call), new(Call)
	for range 3 { // a repeated call
		if err := (&peer{call: first}).Receive(t.Context(), 2*maxLarge); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- (&peer{call: second}).Receive(ctx, 1) }()
	gone := errors.New("gone")
	cancel(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("there is no room, and Receive returned %v", err)
	}
	second.Release()
	go func() { ended <- (&peer{call: second}).Receive(t.Context(), maxLarge) }()
	first.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	second.Release()
	if !large.TryAcquire(maxLarge) {
		t.Fatal("room was not given back")
	}
	large.Release(maxLarge)
}
