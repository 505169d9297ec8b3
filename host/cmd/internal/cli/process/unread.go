package process

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// WhenUnread calls f when all readers of a pipe or a socket have closed it. It does nothing for other streams. The
// caller must call stop, after which f is not called any more.
func WhenUnread(stream io.Writer, f func()) (stop func()) {
	none := func() {}
	file, ok := stream.(*os.File)
	if !ok {
		return none
	}
	if st, err := file.Stat(); err != nil || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return none
	}
	wake, end, err := os.Pipe() // its end closes when the command ends
	if err != nil {
		return none
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		if unread(file, wake) {
			f()
		}
	})
	return func() {
		_ = end.Close()
		watching.Wait()
		_ = wake.Close()
	}
}

// unread waits until all readers of a pipe have closed it, and returns true. It returns false if the other side of wake
// is closed first.
func unread(file, wake *os.File) bool {
	for {
		// If no events are requested, poll reports only errors and that the other side was closed.
		fds := []unix.PollFd{{Fd: int32(file.Fd())}, {Fd: int32(wake.Fd())}}
		n, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0 && err == nil && fds[1].Revents == 0
	}
}
