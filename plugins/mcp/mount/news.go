package mount

import (
	"context"
	"sync"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// news is a queue of notifications for the host.
type news struct{ queue chan tool.Notification }

// maxNews is the maximum number of queued notifications. If the host does not receive them, further notifications are
// dropped.
const maxNews = 256

func newNews() news { return news{queue: make(chan tool.Notification, maxNews)} }

func (n news) tell(what tool.Notification) {
	select {
	case n.queue <- what:
	default:
	}
}

func (n news) listen(ctx context.Context, notify func(tool.Notification)) error {
	for {
		select {
		case what := <-n.queue:
			notify(what)
		case <-ctx.Done():
			return nil
		}
	}
}

// maxRate is the maximum number of messages that a connection passes on in one second.
const maxRate = 50

// flood counts the messages of the current second.
type flood struct {
	mu      sync.Mutex
	now     func() time.Time // nil means time.Now
	since   time.Time
	n       int
	dropped int
	session string // the session whose messages were dropped
}

// permit reports whether another message for a session may be passed on. The result "dropped" is the number of earlier
// messages for the session that were dropped. Each dropped message is counted in at most one result.
func (f *flood) permit(session string) (dropped int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.now != nil {
		now = f.now()
	}
	if f.session != session {
		f.session, f.dropped = session, 0
	}
	if now.Sub(f.since) >= time.Second {
		dropped, f.dropped = f.dropped, 0
		f.since, f.n = now, 0
	}
	if f.n++; f.n > maxRate {
		f.dropped++
		return 0, false
	}
	return dropped, true
}

// rest returns the number of messages for a session that were dropped and not yet reported.
func (f *flood) rest(session string) (dropped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == session {
		dropped, f.dropped = f.dropped, 0
	}
	return dropped
}

// maxSubscriptions is the maximum number of subscriptions of all sessions.
const maxSubscriptions = 1000

// subscriptions lists the sessions that subscribed to each resource. All subscriptions use the shared connection,
// because a notification only names the resource that changed.
type subscriptions struct {
	mu sync.Mutex
	by map[string]map[string]bool // sessions by URI
	n  int
}

// add subscribes a session to a resource. The function "subscribe" is called only for the first session of a resource.
// The result "known" is true if the session already had this subscription.
func (s *subscriptions) add(session, uri string, subscribe func() error) (known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[uri][session]:
		return true, nil
	case s.n >= maxSubscriptions:
		return false, sdk.Errorf(tool.Unavailable, "The sessions have %d subscriptions to resources of the MCP server, which is the maximum. End other subscriptions first.", s.n)
	}
	if len(s.by[uri]) == 0 {
		if err := subscribe(); err != nil {
			return false, err
		}
		if s.by == nil {
			s.by = make(map[string]map[string]bool)
		}
		s.by[uri] = make(map[string]bool)
	}
	s.by[uri][session] = true
	s.n++
	return false, nil
}

// remove ends the subscription of a session. The function "unsubscribe" is called only for the last session of a
// resource.
func (s *subscriptions) remove(session, uri string, unsubscribe func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.by[uri][session] {
		return nil
	}
	s.n--
	if delete(s.by[uri], session); len(s.by[uri]) > 0 {
		return nil
	}
	delete(s.by, uri)
	return unsubscribe()
}
