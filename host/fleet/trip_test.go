package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/sdk/tool"
)

// flapping is a connection that is lost after some messages.
type flapping struct {
	hop.Sender
	messages int
	lasts    time.Duration // time until the connection is lost
}

// Recv implements [hop.Sender].
func (c *flapping) Recv() (*fleetpb.ForwardResponse, error) {
	if c.messages--; c.messages >= 0 {
		return &fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Queued{Queued: &fleetpb.Queued{}}}, nil
	}
	time.Sleep(c.lasts)
	return nil, errors.New("lost")
}

// TestTripPatience checks how long a gateway comes back to a call. Each connection on which the other node answers
// renews its patience, however short the connection is.
func TestTripPatience(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		messages int // on each later connection
		lasts    time.Duration
		arrives  bool
	}{
		"each connection lasts half a minute":   {1, 30 * time.Second, true},
		"each connection lasts a moment":        {1, time.Millisecond, true},
		"each connection lasts three minutes":   {1, 3 * time.Minute, true},
		"the other node does not answer":        {0, 30 * time.Second, false},
		"the other node cannot be reached":      {0, 0, false},
		"the other node is silent for too long": {0, 3 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				trip := &trip{r: &request{client: hop.Silent{}}, held: true, call: hop.NewCall(hop.Silent{}, func() {})}
				end := time.Now().Add(10 * time.Minute) // of the call at the other node
				out := trip.run(t.Context(), func(ctx context.Context, again bool) (attempt, bool) {
					if again && time.Now().After(end) && tc.messages > 0 {
						return attempt{result: new(tool.Result)}, false
					}
					c := &flapping{messages: 1, lasts: tc.lasts}
					if again {
						c.messages = tc.messages
					}
					_, err := trip.call.Receive(ctx, c)
					return attempt{verdict: lost}, err != nil
				})
				if (out.result != nil) != tc.arrives {
					t.Errorf("after %s: %v", 10*time.Minute-time.Until(end), out)
				}
			})
		})
	}
}
