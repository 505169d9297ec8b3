package bash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"toolhost.dev/plugins/bash/capture"
	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

// silence is the time without output after which the tool checks whether the command waits for input. The tool
// repeats the check at the same interval.
const silence = time.Second

// keepDelay is the time after which the tool notifies the host that a running command will not change the directory.
// Most commands end earlier and need no such message.
const keepDelay = 5 * time.Millisecond

// running is a running command with its output streams.
type running struct {
	process          *shell.Process
	stdout, stderr   *stream
	restOut, restErr *spill.Buffer // buffers for output that arrives after the end of the command
	shown            *jobs.Job     // job of the command while a call waits for the command; nil otherwise
	screen           string        // full-screen program that made the tool end the command; empty if none did
	keeps            func()        // notifies the host that the directory stays the same; nil if the command can change the directory
}

func (b *bash) start(shells *shell.Runner, call *sdk.Call, in *args, seed shell.Seed) *running {
	c := &running{
		stdout:  newStream(call, tool.Stdout, spill.NewBuffer("stdout", b.store)),
		stderr:  newStream(call, tool.Stderr, spill.NewBuffer("stderr", b.store)),
		restOut: spill.NewBuffer("stdout", b.store), restErr: spill.NewBuffer("stderr", b.store),
	}
	c.process = shells.Start(call.SessionID, shell.Command{
		Seed: seed, Text: in.Command, Stdin: in.Stdin, KeepStdin: in.KeepStdin,
		Stdout: c.stdout, Stderr: c.stderr, RestOut: c.restOut, RestErr: c.restErr,
	})
	if c.process.KeepsDirectory() {
		c.keeps = call.KeepsDirectory
	}
	return c
}

// stopLive ends the live view of both streams.
func (c *running) stopLive() {
	c.stdout.stopLive()
	c.stderr.stopLive()
}

// job creates a job from the running command.
func (c *running) job(call *sdk.Call, in *args, title string) *jobs.Job {
	return &jobs.Job{
		Session: call.SessionID, Title: title, Process: c.process,
		Timeout: time.Duration(in.JobTimeout) * time.Millisecond,
		Stdout:  []*spill.Buffer{c.stdout.buffer, c.restOut}, Stderr: []*spill.Buffer{c.stderr.buffer, c.restErr},
	}
}

// silent returns the time since the last output of the command.
func (c *running) silent() time.Duration {
	last := c.process.Began()
	for _, s := range []*stream{c.stdout, c.stderr} {
		if t := s.written(); t.After(last) {
			last = t
		}
	}
	return time.Since(last)
}

// ending is the reason why the method await returned.
type ending int

const (
	hasEnded ending = iota
	goesOn
)

// reason is the reason why a command becomes a job.
type reason int

const (
	becauseAsked reason = iota
	becauseSlow
	becauseSilent
	becauseStdin
	becauseTerminal
	becauseMoved
)

// text returns a note that explains the reason and how the caller can manage the job.
func (r reason) text(id string) string {
	const goesOn = "The session's directory and variables are unchanged."
	switch r {
	case becauseStdin:
		return fmt.Sprintf("The command is waiting for input and continues as the job %[1]s. To answer, run: job write %[1]s --input '…'. To end the command, run: job kill %[1]s. %[2]s", id, goesOn)
	case becauseTerminal:
		return fmt.Sprintf("The command is waiting for input at a terminal of its own, where nobody can answer. It continues as the job %[1]s. To end the command, run: job kill %[1]s. Then run it again with options or a file that contain the answers. %[2]s", id, goesOn)
	case becauseSlow:
		return fmt.Sprintf("The command is not done and continues as the job %[1]s. To manage it, run: job tail %[1]s, job wait %[1]s or job kill %[1]s. %[2]s", id, goesOn)
	case becauseMoved:
		return fmt.Sprintf("The command was sent to the background and continues as the job %[1]s. To manage it, run: job tail %[1]s, job wait %[1]s or job kill %[1]s. %[2]s", id, goesOn)
	case becauseSilent:
		return fmt.Sprintf("The command has printed nothing for a while and continues as the job %[1]s. To manage it, run: job tail %[1]s, job wait %[1]s or job kill %[1]s. %[2]s", id, goesOn)
	}
	return fmt.Sprintf("The command was started as the job %[1]s. To manage it, run: job tail %[1]s, job wait %[1]s or job kill %[1]s. %[2]s", id, goesOn)
}

// await waits until the command ends or becomes a job. It ends the command when the command's timeout passes or ctx
// ends. If too many jobs run, the command cannot become a job, and await continues to wait.
func (b *bash) await(ctx context.Context, session string, c *running, in *args) (ending, reason) {
	if in.Background {
		return goesOn, becauseAsked
	}
	timeout := time.NewTimer(time.Duration(in.Timeout) * time.Millisecond)
	defer timeout.Stop()
	var slow, idle <-chan time.Time
	if in.Yield > 0 {
		timer := time.NewTimer(time.Duration(in.Yield) * time.Millisecond)
		defer timer.Stop()
		slow = timer.C
	}
	idleTime := time.Duration(in.YieldIdle) * time.Millisecond
	idleTimer := time.NewTimer(max(idleTime, time.Millisecond))
	defer idleTimer.Stop()
	if idleTime > 0 {
		idle = idleTimer.C
	}
	look := time.NewTicker(silence)
	defer look.Stop()
	var screen <-chan time.Time
	if mentionsScreen.MatchString(in.Command) {
		ticker := time.NewTicker(screenTime)
		defer ticker.Stop()
		screen = ticker.C
	}
	moved := c.shown.Asked()
	var keeps <-chan time.Time
	if c.keeps != nil {
		timer := time.NewTimer(keepDelay)
		defer timer.Stop()
		keeps = timer.C
	}
	for {
		select {
		case <-c.process.Done():
			return hasEnded, 0
		case <-keeps:
			c.keeps()
		case <-moved:
			if moved = nil; b.jobs.Room(session) {
				return goesOn, becauseMoved
			}
		case <-slow:
			if b.jobs.Room(session) {
				return goesOn, becauseSlow
			}
		case <-idle:
			left := idleTime - c.silent()
			if left <= 0 && b.jobs.Room(session) {
				return goesOn, becauseSilent
			}
			if left <= 0 {
				left = silence
			}
			idleTimer.Reset(left)
		case <-screen:
			if c.screen = fullScreen(c.process); c.screen != "" {
				return b.end(c, shell.Canceled)
			}
		case <-look.C:
			if c.silent() < silence || !b.jobs.Room(session) {
				continue
			}
			switch stdin, terminal := c.process.Waiting(); {
			case stdin:
				return goesOn, becauseStdin
			case terminal:
				return goesOn, becauseTerminal
			}
		case <-timeout.C:
			return b.end(c, shell.TimedOut)
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return b.end(c, shell.TimedOut)
			}
			return b.end(c, shell.Canceled)
		}
	}
}

func (b *bash) end(c *running, why shell.Ending) (ending, reason) {
	c.process.Stop(why)
	<-c.process.Done()
	return hasEnded, 0
}

// stream stores one output stream of a command. While the call waits, stream also forwards the output to the live view.
type stream struct {
	buffer *spill.Buffer

	mu   sync.Mutex
	live *capture.Live // nil after the live view has ended
	last time.Time
}

func newStream(call *sdk.Call, s tool.Stream, b *spill.Buffer) *stream {
	return &stream{buffer: b, live: capture.NewLive(func(p []byte) { call.Output(s, p) })}
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.last = time.Now()
	if s.live != nil {
		_, _ = s.live.Write(p)
	}
	s.mu.Unlock()
	return s.buffer.Write(p)
}

// written returns the time of the last write.
func (s *stream) written() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// stopLive sends the pending output to the live view and ends it.
func (s *stream) stopLive() {
	s.mu.Lock()
	live := s.live
	s.live = nil
	s.mu.Unlock()
	if live != nil {
		live.Close()
	}
}
