package hosttest

import (
	"fmt"
	"testing"
	"time"
)

// patience limits a wait. It is long, because a busy machine can need most of it.
const patience = 5 * time.Minute

// spare is the part of a test's time that is left for its end after a wait has failed.
const spare = 30 * time.Second

// limit returns how long a test can wait. A wait ends before the deadline of the test, so that the test can say what it
// waited for.
func limit(t *testing.T) time.Duration {
	end, ok := t.Deadline()
	if !ok {
		return patience
	}
	return max(min(patience, time.Until(end)-spare), time.Second)
}

// Late returns a channel that receives the time when a test has waited too long, for use in a select statement.
func Late(t *testing.T) <-chan time.Time { return time.After(limit(t)) }

// Wait calls done until it returns true. It fails the test if that takes too long. The text what names the condition.
func Wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	Must(t, wait(limit(t), func() error {
		if !done() {
			return fmt.Errorf("waited in vain: %s", what)
		}
		return nil
	}))
}

// wait calls check until it returns nil, or returns its last error after the limit. If a check is slow, wait pauses
// longer before the next one, because the checks need the same processors as the work that they wait for.
func wait(limit time.Duration, check func() error) error {
	pause := time.Millisecond
	for end := time.Now().Add(limit); ; {
		began := time.Now()
		err := check()
		if err == nil || began.After(end) {
			return err
		}
		pause = min(2*pause, 50*time.Millisecond)
		time.Sleep(max(pause, 3*time.Since(began)))
	}
}

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
