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
	// quietTime is how long output is waited for that comes after the end of the
	// shell, as from >(a process substitution), while something holds the pipe.
	quietTime = 100 * time.Millisecond
	// lateBytes bounds how much such output is taken.
	lateBytes = 1 << 20
	pumpSize  = 64 << 10
	// firstSize is the buffer of a stream that has not had much: most have little.
	firstSize = 4 << 10
)

// pump reads a pipe into a writer until the shell's end, and after that goes on
// reading into another: what the shell left behind must neither block nor get SIGPIPE.
type pump struct {
	r    *os.File
	w    io.Writer
	rest io.Writer     // for what comes after the end
	late time.Duration // how long to read on after the end for w; 0: close the pipe
	// complete is set when no process but the shell has the other end, and the shell writes no more.
	complete atomic.Bool
	// done is closed when all that the shell wrote is in w, and nothing follows.
	done chan struct{}
}

func startPump(r *os.File, w, rest io.Writer, late time.Duration) *pump {
	p := &pump{r: r, w: w, rest: rest, late: late, done: make(chan struct{})}
	go p.run()
	return p
}

// shellEnded tells the pump to finish. It wakes the reader by a deadline in the past. If complete
// is set, nothing more will be written.
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
		go p.r.Close() //nolint:errcheck // who waits need not wait for that
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

// copy copies until an error, the end of the file being one, or until limit bytes
// were read, if it is not negative. It makes the buffer larger when that was too small.
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

// drain copies what is in the pipe, at most lateBytes, without waiting, and reports
// whether the pipe is still open at the other end.
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
				open = err != nil // 0 bytes without an error are the end
				return true
			}
		}
		return true
	})
	return total, open
}
