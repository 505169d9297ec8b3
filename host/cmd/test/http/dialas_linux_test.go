package http

import (
	"context"
	"net"
	"runtime"
	"syscall"
)

// dialAs returns a function that connects to a socket as another user.
func dialAs(socket string, uid int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result)
		go func() {
			runtime.LockOSThread() // never unlock the thread, because its user changes; the thread ends with the goroutine
			keep := ^uintptr(0)
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
				done <- result{nil, errno}
				return
			}
			conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			done <- result{conn, err}
		}()
		r := <-done
		return r.conn, r.err
	}
}
