// Package jobs implements background jobs: commands that keep running while their sessions
// continue.
package jobs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"
)

// Bounds of a [Table].
const (
	// MaxRunning is how many jobs of a session may run, and MaxTotal of all sessions.
	MaxRunning = 16
	MaxTotal   = 64
	// maxEnded is how many ended jobs of a session are remembered, and endedAge how long.
	maxEnded = 16
	endedAge = time.Hour
	// MaxAge is how long a job may run.
	MaxAge = 24 * time.Hour
)

// ErrTooMany means that no job more may run.
var ErrTooMany = errors.New("jobs: too many are running")

// Table holds the jobs of all sessions. The zero value is empty. It is safe for
// concurrent use.
type Table struct {
	mu   sync.Mutex
	jobs []*Job // oldest first
}

// Add takes a job in, gives it an id, and has it ended when it is too old.
func (t *Table) Add(j *Job) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	if !t.room(j.Session) {
		return ErrTooMany
	}
	j.ID = t.newID()
	j.start()
	t.jobs = append(t.jobs, j)
	return nil
}

// Room reports whether one more job of the session may run.
func (t *Table) Room(session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	return t.room(session)
}

func (t *Table) room(session string) bool {
	running, total := 0, 0
	for _, j := range t.jobs {
		if !j.Running() {
			continue
		}
		total++
		if j.Session == session {
			running++
		}
	}
	return running < MaxRunning && total < MaxTotal
}

// tidy forgets the jobs that have ended too long ago, or before too many others.
func (t *Table) tidy() {
	ended := make(map[string]int)
	kept := make([]*Job, 0, len(t.jobs))
	for _, j := range slices.Backward(t.jobs) {
		if !j.Running() {
			ended[j.Session]++
			if ended[j.Session] > maxEnded || time.Since(j.endedAt()) > endedAge {
				j.forget()
				continue
			}
		}
		kept = append(kept, j)
	}
	slices.Reverse(kept)
	t.jobs = kept
}

// newID makes an id that no job has, and that is not soon given again: a caller may
// remember one of a plugin that was started again since.
func (t *Table) newID() string {
	for {
		var b [3]byte
		_, _ = rand.Read(b[:]) // never fails
		id := "job-" + hex.EncodeToString(b[:])
		if !slices.ContainsFunc(t.jobs, func(j *Job) bool { return j.ID == id }) {
			return id
		}
	}
}

// Get returns the job of that id if it is of the session, else nil.
func (t *Table) Get(session, id string) *Job {
	for _, j := range t.List(session) {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// List returns the session's jobs, oldest first.
func (t *Table) List(session string) []*Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	var mine []*Job
	for _, j := range t.jobs {
		if j.Session == session {
			mine = append(mine, j)
		}
	}
	return mine
}
