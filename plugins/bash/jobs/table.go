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

// The limits of a [Table].
const (
	// MaxRunning limits the number of running jobs of a session. MaxTotal limits the number of running jobs of all
	// sessions together.
	MaxRunning = 16
	MaxTotal   = 64
	// maxEnded limits the number of ended jobs that are kept for a session. endedAge limits the time for which an
	// ended job is kept.
	maxEnded = 16
	endedAge = time.Hour
	// MaxAge is the maximum duration of a job.
	MaxAge = 24 * time.Hour
)

// ErrTooMany means that the maximum number of jobs is running.
var ErrTooMany = errors.New("jobs: too many are running")

// Table contains the jobs of all sessions. The zero value is empty and ready to use. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	jobs []*Job // the oldest job is first
}

// Add adds a job, assigns its ID, and starts the timer that limits its age. A foreground command keeps its ID.
func (t *Table) Add(j *Job) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	if !t.room(j.Session) {
		return ErrTooMany
	}
	if !j.foreground.Swap(false) {
		j.ID = t.newID()
		t.jobs = append(t.jobs, j)
	}
	j.start()
	return nil
}

// Show adds a foreground command, so that other calls can manage it. If the command becomes a job, the caller must call
// Add; otherwise it must call Hide.
func (t *Table) Show(j *Job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.asked = make(chan struct{})
	j.foreground.Store(true)
	j.ID = t.newID()
	t.jobs = append(t.jobs, j)
}

// Hide removes a foreground command. It does nothing if the command became a job.
func (t *Table) Hide(j *Job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.Foreground() {
		t.jobs = slices.DeleteFunc(t.jobs, func(other *Job) bool { return other == j })
	}
}

// Room reports whether the session can start another job.
func (t *Table) Room(session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	return t.room(session)
}

func (t *Table) room(session string) bool {
	running, total := 0, 0
	for _, j := range t.jobs {
		if j.Foreground() || !j.Running() {
			continue
		}
		total++
		if j.Session == session {
			running++
		}
	}
	return running < MaxRunning && total < MaxTotal
}

// Count returns the number of jobs, with the ended ones whose output can still be read.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy()
	return len(t.jobs)
}

// tidy removes ended jobs that exceed the limits on age and number.
func (t *Table) tidy() {
	ended := make(map[string]int)
	kept := make([]*Job, 0, len(t.jobs))
	for _, j := range slices.Backward(t.jobs) {
		if !j.Foreground() && !j.Running() {
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

// newID returns an unused random id. A caller can remember an id from before a restart of the plugin. With random ids,
// such an id does not select another job.
func (t *Table) newID() string {
	for {
		var b [3]byte
		_, _ = rand.Read(b[:]) // ignore the error: crypto/rand never fails
		id := "job-" + hex.EncodeToString(b[:])
		if !slices.ContainsFunc(t.jobs, func(j *Job) bool { return j.ID == id }) {
			return id
		}
	}
}

// Get returns the job with the given id if the job belongs to the session. Otherwise it returns nil.
func (t *Table) Get(session, id string) *Job {
	for _, j := range t.List(session) {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// List returns the jobs of a session, oldest first.
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
