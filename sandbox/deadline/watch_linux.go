package deadline

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/descriptor"
)

// These are the descriptors of a watcher.
const (
	socketFD = 3
	pageFD   = 4
)

// Watch runs a watcher. It returns the exit status.
func Watch() int {
	page, err := unix.Mmap(pageFD, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox: only a host starts a watcher:", err)
		return 2
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox: no timer:", err)
		return 2
	}
	w := &watcher{page: page, timer: timer, guarded: make(map[int]struct{})}
	err = w.run()
	w.kill() // the host has ended
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox: the watcher of the lease:", err)
		return 2
	}
	return 0
}

type watcher struct {
	page    []byte
	timer   int
	guarded map[int]struct{} // descriptors of processes
}

// run handles requests until the host closes its end of the socket.
func (w *watcher) run() error {
	for {
		w.check()
		polled := []unix.PollFd{{Fd: socketFD, Events: unix.POLLIN}, {Fd: int32(w.timer), Events: unix.POLLIN}}
		for fd := range w.guarded {
			polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
		if _, err := unix.Poll(polled, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		w.check() // check the lease before each request, because it can have ended in the meantime
		for _, p := range polled[2:] {
			if p.Revents != 0 { // the process has ended
				delete(w.guarded, int(p.Fd))
				_ = unix.Close(int(p.Fd))
			}
		}
		if polled[0].Revents == 0 {
			continue
		}
		if ended, err := w.serve(); ended || err != nil {
			return err
		}
	}
}

// check kills the processes if the lease has ended. Otherwise it sets the timer to the end of the lease.
func (w *watcher) check() (valid bool) {
	end := time.Duration(deadlineOf(w.page).Load())
	if end <= Now() {
		w.kill()
		end = Now() + time.Hour
		valid = false
	} else {
		valid = true
	}
	var buffer [8]byte
	_, _ = unix.Read(w.timer, buffer[:]) // the error is ignored: the timer did not fire
	_ = unix.TimerfdSettime(w.timer, unix.TFD_TIMER_ABSTIME,
		&unix.ItimerSpec{Value: unix.NsecToTimespec(int64(end))}, nil)
	return valid
}

func (w *watcher) kill() {
	for fd := range w.guarded {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // the error is ignored: the process has ended
		_ = unix.Close(fd)
	}
	clear(w.guarded)
}

// serve handles one request. The result "ended" is true if the host has ended.
func (w *watcher) serve() (ended bool, err error) {
	var request [1]byte
	oob := make([]byte, descriptor.Space)
	n, oobn, _, _, err := unix.Recvmsg(socketFD, request[:], oob, unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
		return true, nil
	case err != nil:
		return false, err
	}
	answer := byte('x')
	switch request[0] {
	case 'p':
		fds, _ := descriptor.All(oob[:oobn]) // the error is ignored: a request without a descriptor guards nothing more
		for _, fd := range fds {
			w.guarded[fd] = struct{}{}
		}
		if w.check() {
			answer = 'k'
		}
	case 'e':
		w.kill()
		answer = 'k'
	}
	if err := unix.Sendmsg(socketFD, []byte{answer}, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return true, nil //nolint:nilerr // the host has ended
	}
	return false, nil
}
