package recorder

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// own contains the recordings that a host began.
type own struct {
	any atomic.Bool // whether the map "by" has entries; for most hosts, it has none

	mu sync.Mutex
	by map[string]*began // by session
}

// began is a recording that began, or an attempt to begin a recording that failed.
type began struct {
	once sync.Once
	tape *Tape // nil for a session that cannot be recorded
}

// Begin begins to record a session in this process. It does nothing if the session is already recorded, or if an
// earlier attempt failed. The function "plan" returns the settings without Dir and Session; Path must be the directory
// of the tapes. Begin removes the oldest tapes in this directory, so that at most keep tapes remain. If the session
// cannot be recorded, it continues without a tape, and the reason is logged.
func (r *Recorder) Begin(session, id string, keep int, plan func() (Settings, error)) {
	r.own.mu.Lock()
	b := r.own.by[session]
	if b == nil {
		if r.own.by == nil {
			r.own.by = make(map[string]*began)
		}
		b = new(began)
		r.own.by[session] = b
		r.own.any.Store(true)
	}
	r.own.mu.Unlock()
	b.once.Do(func() { // run this without the lock, because recording a large workspace takes a long time
		t, err := r.begin(session, id, keep, plan)
		if err != nil {
			r.log().Warn("a session cannot be recorded, and its calls go on", "session", session, "error", err)
			return
		}
		b.tape = t
		r.log().Info("a session is recorded", "session", session, "tape", t.path)
	})
}

func (r *Recorder) log() *slog.Logger {
	if r.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Log
}

func (r *Recorder) begin(session, id string, keep int, plan func() (Settings, error)) (*Tape, error) {
	if r.Dir == "" {
		return nil, errors.New("the host keeps no state, which recordings need")
	}
	s, err := plan()
	if err != nil {
		return nil, err
	}
	dir := s.Path
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the directory of the tapes cannot be made: %w", err)
	}
	if err := makeRoom(dir, keep-1); err != nil {
		return nil, err
	}
	s.Dir, s.Session, s.Path = r.Dir, session, filepath.Join(dir, tapeName(id, time.Now()))
	return Start(s)
}

// tapeName returns a name for the tape of a session, such as 20260102T150405.000-review.tape. Tapes sort by time.
func tapeName(id string, now time.Time) string {
	id = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c) {
			return c
		}
		return '_'
	}, id)
	if id == "" {
		id = "default"
	}
	return now.UTC().Format("20060102T150405.000") + "-" + id[:min(len(id), 100)] + ".tape"
}

var tapeNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9]{8}T[0-9]{6}[.][0-9]{3}-.*[.]tape$`)
})

// makeRoom removes the oldest tapes so that at most keep remain. It does not remove other files.
func makeRoom(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the directory of the tapes cannot be read: %w", err)
	}
	var tapes []string
	for _, e := range entries {
		if e.Type().IsRegular() && tapeNames().MatchString(e.Name()) {
			tapes = append(tapes, e.Name())
		}
	}
	slices.Sort(tapes)
	for len(tapes) > keep {
		if err := os.Remove(filepath.Join(dir, tapes[0])); err != nil && !os.IsNotExist(err) { // another host can remove it
			return fmt.Errorf("an old tape cannot be removed: %w", err)
		}
		tapes = tapes[1:]
	}
	return nil
}

// End ends the recording of a session that [Recorder.Begin] began. It does nothing for other sessions.
func (r *Recorder) End(session string) {
	if !r.own.any.Load() {
		return
	}
	r.own.mu.Lock()
	b := r.own.by[session]
	delete(r.own.by, session)
	r.own.any.Store(len(r.own.by) > 0)
	r.own.mu.Unlock()
	if b != nil {
		r.end(session, b)
	}
}

func (r *Recorder) endAll() {
	r.own.mu.Lock()
	all := r.own.by
	r.own.by = nil
	r.own.any.Store(false)
	r.own.mu.Unlock()
	for session, b := range all {
		r.end(session, b)
	}
}

func (r *Recorder) end(session string, b *began) {
	b.once.Do(func() {}) // wait for a recording that is about to begin
	if b.tape == nil {
		return
	}
	if _, err := b.tape.End(); err != nil {
		r.log().Warn("a session was recorded, but its tape cannot be replayed", "session", session, "error", err)
	}
}
