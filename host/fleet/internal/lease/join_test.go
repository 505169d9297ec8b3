package lease

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// electing is a bucket that leaves the first three requests of each kind unanswered, as servers do that elect a leader.
type electing struct {
	jetstream.KeyValue

	gets, creates int
}

func (e *electing) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	if e.gets++; e.gets <= 3 {
		return nil, nats.ErrNoResponders
	}
	return nil, jetstream.ErrKeyNotFound
}

func (e *electing) Create(context.Context, string, []byte, ...jetstream.KVCreateOpt) (uint64, error) {
	if e.creates++; e.creates <= 3 {
		return 0, nats.ErrTimeout
	}
	return 1, nil
}

// TestJoinWaitsForAnElection checks that a node joins a fleet whose coordinators elect a leader at this moment, and
// that it does not wait forever.
func TestJoinWaitsForAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		join := func(e *electing) error {
			began := time.Now()
			return New(e, Record{Node: "a"}, Settings{Lease: time.Second, Clock: func() time.Duration { return time.Since(began) }, Renewed: func(time.Duration) {}, Log: slog.New(slog.DiscardHandler)}).Join(t.Context())
		}
		if err := join(&electing{}); err != nil {
			t.Errorf("during an election: %v", err)
		}
		if err := join(&electing{gets: -1000}); err == nil || err.Error() != "the records of the nodes cannot be read: nats: no responders available for request" {
			t.Errorf("without servers: %v", err)
		}
	})
}
