package execgate

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slowPeriod is the interval between two checks of a reader. A judgement is slow if it lasts from one check to the
// next.
const slowPeriod = 10 * time.Millisecond

// reader reads notifications and handles them in the same goroutine, because this is faster than a switch to another
// goroutine. If handling one notification takes long, another reader continues with the next notifications. The slow
// reader ends after its current notification.
type reader struct {
	p      *process
	memory memory

	mu       sync.Mutex
	begun    uint64 // number of notifications until now
	seen     uint64 // value of the field "begun" at the last check
	busy     bool   // whether the reader is handling a notification
	checked  bool   // whether a check is scheduled
	replaced bool
}

func (p *process) read() {
	defer p.running.Done()
	r := &reader{p: p}
	defer func() {
		if v := recover(); v != nil {
			p.log("reading the programs of a plugin failed", "stack", string(debug.Stack()))
			p.ended <- fmt.Errorf("internal error: %v", v)
		}
	}()
	if replaced, err := r.loop(); !replaced {
		p.ended <- err
	}
}

// loop handles notifications one after the other. When all processes have ended, the error is nil.
func (r *reader) loop() (replaced bool, err error) {
	p := r.p
	for {
		ready := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		switch {
		case ready[0].Revents&unix.POLLIN != 0:
		case ready[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			return false, nil
		default:
			continue
		}
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), requestReceive, uintptr(unsafe.Pointer(&n)))
		switch errno {
		case 0:
			r.begin()
			p.handle(&r.memory, &n)
			if r.end() {
				return true, nil
			}
		case unix.EINTR, unix.ENOENT: // the process was killed
		default:
			return false, errno
		}
	}
}

// begin marks the reader as busy and schedules a check.
func (r *reader) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = true
	if r.begun++; !r.checked {
		r.checked = true
		time.AfterFunc(slowPeriod, r.check)
	}
}

// end marks the reader as idle. It reports whether another reader has replaced this reader.
func (r *reader) end() (replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy = false; r.replaced {
		<-r.p.slow
	}
	return r.replaced
}

// check starts another reader if this reader handled the same notification at the last check. An idle reader stops the
// checks, so that an idle plugin needs no CPU time.
func (r *reader) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy && r.begun == r.seen {
		select {
		case r.p.slow <- struct{}{}:
			r.replaced = true
			r.p.running.Add(1)
			go r.p.read()
			return
		default: // the maximum number of slow judgements is reached
		}
	}
	if !r.busy && r.begun == r.seen {
		r.checked = false
		return
	}
	r.seen = r.begun
	time.AfterFunc(slowPeriod, r.check)
}
