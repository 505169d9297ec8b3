package shell

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Errors of [Process.Write].
var (
	// ErrStdinClosed means that the command's standard input is closed or was never open.
	ErrStdinClosed = errors.New("shell: standard input is closed")
	// ErrStdinFull means that the command does not read its standard input.
	ErrStdinFull = errors.New("shell: the command does not read its standard input")
)

// writeTime limits how long a write waits for the command to read.
const writeTime = 2 * time.Second

// attach records the shell that runs the command. It also starts to write Command.Stdin to that shell.
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
			_, _ = in.stdin.Write(text) // blocks until the command has read the text or the pipe is closed
			<-p.writing
		}()
	}
}

// Write writes to the command's standard input, which must be kept open. If last is true, Write then closes the
// input. It returns the number of written bytes.
func (p *Process) Write(text []byte, last bool) (n int, err error) {
	limit := time.NewTimer(writeTime)
	defer limit.Stop()
	select {
	case <-p.attached: // wait, because a new job possibly has no shell yet
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
		err, last = ErrStdinClosed, true // writing failed because the command has closed its standard input
	}
	if last {
		p.closeStdin()
	}
	return n, err
}

// closeStdin closes the standard input.
func (p *Process) closeStdin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		_ = p.stdin.Close()
		p.stdin = nil
	}
}

// Waiting reports whether the command is known to wait for input. The result "stdin" is true if the command waits for
// its standard input, which is open. The result "terminal" is true if it waits for a terminal that it opened.
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

// Programs returns the names of the programs that the command runs now, each with its arguments.
func (p *Process) Programs() [][]string {
	p.mu.Lock()
	in := p.shell
	p.mu.Unlock()
	if in == nil {
		return nil
	}
	return in.tree.Programs()
}
