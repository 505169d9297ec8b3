package jobs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk/spill"
)

// Job is one of three things: a running command whose call has returned, the processes that an ended command left
// running, or a foreground command. A foreground command is a command whose call still waits for it.
type Job struct {
	ID      string
	Session string
	// Title describes the command in one line.
	Title   string
	Process *shell.Process
	// Left means that the command has ended. The job consists of the processes that the command left running.
	Left bool
	// Stdout and Stderr contain the buffers of each stream, in the order in which the buffers were filled.
	Stdout, Stderr []*spill.Buffer
	// Timeout limits the duration of the command, measured from its start. 0 means that only MaxAge limits the
	// command.
	Timeout time.Duration

	foreground atomic.Bool
	asked      chan struct{} // closed by Background; nil if the job never was a foreground command
	askedOnce  sync.Once

	mu    sync.Mutex
	limit *time.Timer
	ended time.Time // zero until the end of the job is noticed
}

// Foreground reports whether the call of the command still waits for it.
func (j *Job) Foreground() bool { return j.foreground.Load() }

// Background asks the call of a foreground command to return and leave the command running as a job.
func (j *Job) Background() {
	if j.asked != nil {
		j.askedOnce.Do(func() { close(j.asked) })
	}
}

// Asked returns a channel that is closed when a caller moves the command to the background.
func (j *Job) Asked() <-chan struct{} { return j.asked }

// start starts the timer that ends the job after its timeout.
func (j *Job) start() {
	left, why := MaxAge, shell.Canceled
	if j.Timeout > 0 {
		left, why = time.Until(j.Process.Began().Add(j.Timeout)), shell.TimedOut
	}
	j.limit = time.AfterFunc(left, func() {
		j.Process.Stop(why)
		j.Process.Kill()
	})
}

// Running reports whether any process of the job is running.
func (j *Job) Running() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended.IsZero() {
		return false
	}
	select {
	case <-j.Process.Done():
	default:
		return true
	}
	if len(j.Process.Alive()) > 0 {
		return true
	}
	if j.Foreground() {
		return false // the call that waits for the command removes the job
	}
	j.ended = time.Now()
	j.limit.Stop()
	return false
}

func (j *Job) endedAt() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// Outcome returns the outcome of the job's command. It returns nil while the command runs. It also returns nil if
// the job consists of processes that an ended command left running.
func (j *Job) Outcome() (*shell.Outcome, error) {
	if j.Left {
		return nil, nil
	}
	select {
	case <-j.Process.Done():
		return j.Process.Outcome()
	default:
		return nil, nil
	}
}

// Age returns the running time of the job.
func (j *Job) Age() time.Duration {
	if o, _ := j.Outcome(); o != nil && !j.Running() {
		return o.Duration
	}
	if end := j.endedAt(); !end.IsZero() {
		return end.Sub(j.Process.Began())
	}
	return time.Since(j.Process.Began())
}

// pollTime is the interval at which Wait checks whether the job's processes have ended.
const pollTime = 50 * time.Millisecond

// Wait waits until all processes of the job have ended or ctx ends.
func (j *Job) Wait(ctx context.Context) {
	if !j.Left {
		select {
		case <-j.Process.Done():
		case <-ctx.Done():
			return
		}
	}
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for j.Running() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// Kill kills all processes of the job and waits until they no longer exist.
func (j *Job) Kill() { j.Process.Kill() }

// Tail returns the last lines of a stream and the files that contain the whole stream.
func Tail(stream []*spill.Buffer, lines int) (text string, files []string) {
	for i, b := range stream {
		if i > 0 && b.Size() == 0 {
			continue
		}
		t, path := b.Tail(lines)
		if text = t; path != "" {
			files = append(files, path)
		}
	}
	return text, files
}

// forget closes the output files of the job.
func (j *Job) forget() {
	for _, b := range append(j.Stdout[:len(j.Stdout):len(j.Stdout)], j.Stderr...) {
		b.Close()
	}
}
