package mcp

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// commentEvery is the time after which a silent response over HTTP gets a comment. Proxies close connections that are
// silent for longer, often after one minute.
const commentEvery = 15 * time.Second

// comment is a comment in an event stream. Clients ignore it.
const comment = ": alive\n\n"

// eventStream is the HTTP response to a running call. While the SDK writes no event, eventStream adds a comment from
// time to time. A comment never splits an event, because the SDK writes each event with one Write.
type eventStream struct {
	http.ResponseWriter
	every time.Duration

	mu      sync.Mutex
	last    time.Time // time of the last write
	began   bool      // whether the headers are sent
	early   bool      // whether a comment sent them
	raw     bool      // whether the SDK wanted another status after that, for a response that is no event
	calls   int       // number of running calls
	timer   *time.Timer
	running bool // whether the timer is set
}

// Unwrap makes [http.ResponseController] work.
func (s *eventStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *eventStream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early {
		s.raw = true
		return
	}
	s.began = true
	s.ResponseWriter.WriteHeader(status)
}

func (s *eventStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.last = true, time.Now()
	if !s.raw {
		return s.ResponseWriter.Write(b)
	}
	// A comment already began an event stream, so the response must be an event, too. It is JSON in one line.
	event := append(append([]byte("event: message\ndata: "), bytes.TrimSpace(b)...), "\n\n"...)
	if _, err := s.ResponseWriter.Write(event); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError makes [http.ResponseController] flush between two writes.
func (s *eventStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// begin is called when a call begins whose response is an event stream. The caller must call end before the result is
// written.
func (s *eventStream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.last = time.Now()
	switch {
	case s.timer == nil:
		s.timer = time.AfterFunc(s.every, s.beat)
	case !s.running:
		s.timer.Reset(s.every)
	}
	s.running = true
}

func (s *eventStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 {
		s.timer.Stop()
		s.running = false
	}
}

// beat writes a comment if nothing was written for some time, and sets the timer again.
func (s *eventStream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 {
		return
	}
	silent := time.Since(s.last)
	if silent >= s.every {
		s.early = s.early || !s.began
		s.began, s.last, silent = true, time.Now(), 0
		// Errors are ignored: the SDK notices a lost connection.
		_, _ = s.ResponseWriter.Write([]byte(comment))
		_ = http.NewResponseController(s.ResponseWriter).Flush()
	}
	s.timer.Reset(s.every - silent)
}
