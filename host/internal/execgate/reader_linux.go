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

// slowPeriod is how often a reader is checked. A judgement that lasts from one check to the next is slow.
const slowPeriod = 10 * time.Millisecond

// reader reads notifications and handles them, which takes no switch to another goroutine. If one takes long, another
// reader continues with the next notifications, and this one ends after it.
type reader struct {
	p      *process
	memory memory

	mu       sync.Mutex
	begun    uint64 // the number of notifications so far
	seen     uint64 // begun at the last check
	busy     bool   // whether a notification is handled
	checked  bool   // whether a check is planned
	replaced bool
}

// read runs a reader.
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

// loop handles one notification after the other. The error is nil when all processes have ended.
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

// begin notes that a notification is handled, and plans a check.
func (r *reader) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = true
	if r.begun++; !r.checked {
		r.checked = true
		time.AfterFunc(slowPeriod, r.check)
	}
}

// end notes that a notification was handled. It reports whether another reader has replaced this one.
func (r *reader) end() (replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy = false; r.replaced {
		<-r.p.slow
	}
	return r.replaced
}

// check starts another reader if this one has handled the same notification since the last check. There are no checks
// while nothing happens, so that an idle plugin costs nothing.
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
		default: // too many are slow already
		}
	}
	if !r.busy && r.begun == r.seen {
		r.checked = false
		return
	}
	r.seen = r.begun
	time.AfterFunc(slowPeriod, r.check)
}
