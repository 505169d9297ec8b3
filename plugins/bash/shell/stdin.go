package shell

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Errors of [Process.Write].
var (
	// ErrStdinClosed means that the command has no standard input, or no more.
	ErrStdinClosed = errors.New("shell: standard input is closed")
	// ErrStdinFull means that the command does not read what was written.
	ErrStdinFull = errors.New("shell: the command does not read its standard input")
)

// writeTime is how long a write waits for the command to read.
const writeTime = 2 * time.Second

// attach notes the shell that runs the command, and gives it the beginning of its
// standard input.
func (p *Process) attach(in *instance) {
	p.closeStdin()
	defer p.attachOnce.Do(func() { close(p.attached) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shell, p.stdin = in, in.stdin
	if in.stdin == nil {
		return
	}
	if info, err := in.stdin.Stat(); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			p.inode = st.Ino
		}
	}
	if p.c.Stdin != nil {
		text := []byte(*p.c.Stdin)
		p.writing <- struct{}{}
		go func() {
			_, _ = in.stdin.Write(text) // until it is read, or closed
			<-p.writing
		}()
	}
}

// Write writes to the standard input of a command that keeps it open, and closes it
// then if it is the last. It returns how much was written.
func (p *Process) Write(text []byte, last bool) (n int, err error) {
	limit := time.NewTimer(writeTime)
	defer limit.Stop()
	select {
	case <-p.attached: // a job may be written to before its shell is there
	case <-p.done:
	case <-limit.C:
	}
	p.mu.Lock()
	in := p.stdin
	p.mu.Unlock()
	if in == nil {
		return 0, ErrStdinClosed
	}
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
	case <-limit.C:
		return 0, ErrStdinFull
	}
	if len(text) > 0 {
		_ = in.SetWriteDeadline(time.Now().Add(writeTime))
		n, err = in.Write(text)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ErrStdinFull
	case err != nil:
		err, last = ErrStdinClosed, true // nobody can read it any more
	}
	if last {
		p.closeStdin()
	}
	return n, err
}

// closeStdin ends the standard input.
func (p *Process) closeStdin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		_ = p.stdin.Close()
		p.stdin = nil
	}
}

// Waiting reports whether the command waits for input, as far as that can be known: on
// the standard input that is kept open for it, or on a terminal of its own making.
func (p *Process) Waiting() (stdin, terminal bool) {
	p.mu.Lock()
	in, inode := p.shell, p.inode
	if p.stdin == nil {
		inode = 0
	}
	p.mu.Unlock()
	if in == nil {
		return false, false
	}
	return in.tree.Reading(inode)
}
