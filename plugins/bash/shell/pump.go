package shell

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// quietTime limits the wait for more output after the end of the shell. The wait is necessary only if another
	// process still has the pipe open, such as the process of the substitution >(command).
	quietTime = 100 * time.Millisecond
	// lateBytes limits the output that is read after the end of the shell.
	lateBytes = 1 << 20
	pumpSize  = 64 << 10
	// firstSize is the initial size of the read buffer. It is small because most streams are short.
	firstSize = 4 << 10
)

// pump copies a pipe to a writer until the shell ends. Later output goes to another writer, so remaining processes
// neither block nor get SIGPIPE.
type pump struct {
	r    *os.File
	w    io.Writer
	rest io.Writer     // receives output after the end of the shell
	late time.Duration // time limit for copying to w after the end of the shell; 0 means to close the pipe at once
	// complete means that the shell alone has the other end of the pipe, and that the shell writes no more.
	complete atomic.Bool
	// done is closed when w has received all output of the shell.
	done chan struct{}
}

func startPump(r *os.File, w, rest io.Writer, late time.Duration) *pump {
	p := &pump{r: r, w: w, rest: rest, late: late, done: make(chan struct{})}
	go p.run()
	return p
}

// shellEnded makes the pump finish. It sets a read deadline in the past, which wakes the reader. The argument
// "complete" means that no more output follows.
func (p *pump) shellEnded(complete bool) {
	p.complete.Store(complete)
	_ = p.r.SetReadDeadline(time.Unix(1, 0))
}

func (p *pump) run() {
	buf := make([]byte, firstSize)
	err := p.copy(&buf, -1)
	open, late := errors.Is(err, os.ErrDeadlineExceeded), p.late
	if p.complete.Load() {
		late = 0
	}
	if open {
		var n int
		if n, open = p.drain(buf); open && late > 0 {
			_ = p.r.SetReadDeadline(time.Now().Add(late))
			err = p.copy(&buf, lateBytes-n)
			open = err == nil || errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
	if !open || late == 0 {
		go p.r.Close() //nolint:errcheck // nobody needs to wait for it
		close(p.done)
		return
	}
	close(p.done)
	_ = p.r.SetReadDeadline(time.Time{})
	p.w = p.rest
	buf = make([]byte, firstSize)
	_ = p.copy(&buf, -1)
	_ = p.r.Close()
}

// copy copies the pipe until an error occurs, including io.EOF, or until limit bytes are read. A negative limit
// means no limit. The buffer is enlarged after a read has filled it.
func (p *pump) copy(buf *[]byte, limit int) error {
	for limit != 0 {
		n, err := p.r.Read(*buf)
		_, _ = p.w.Write((*buf)[:n])
		if n == len(*buf) && n < pumpSize {
			*buf = make([]byte, pumpSize)
		}
		if err != nil {
			return err
		}
		if limit > 0 {
			limit = max(0, limit-n)
		}
	}
	return nil
}

// drain copies the bytes that are in the pipe, at most lateBytes, without waiting. The result "open" reports whether
// the other end is still open.
func (p *pump) drain(buf []byte) (total int, open bool) {
	_ = p.r.SetReadDeadline(time.Time{})
	raw, err := p.r.SyscallConn()
	if err != nil {
		return 0, false
	}
	open = true
	_ = raw.Read(func(fd uintptr) bool {
		for total < lateBytes {
			n, err := syscall.Read(int(fd), buf)
			switch {
			case n > 0:
				_, _ = p.w.Write(buf[:n])
				total += n
			case errors.Is(err, syscall.EINTR):
			default:
				open = err != nil // a read of 0 bytes without an error means the end of the pipe
				return true
			}
		}
		return true
	})
	return total, open
}
