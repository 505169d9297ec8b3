package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// quiet is how long a user who is typing must pause before a question is shown.
const quiet = 500 * time.Millisecond

// keyboard reads a terminal and switches its modes. No mode allows a key to suspend or end the program, because the
// following keys would then reach the user's shell.
type keyboard struct {
	in       *os.File
	out      io.Writer
	original unix.Termios
	ahead    []byte // keys that were typed before a question; they belong to the next command
	colorful bool
}

// openKeyboard switches the terminal to the mode of a running command. The caller must call restore.
func openKeyboard(in *os.File, out io.Writer, colorful bool) (*keyboard, error) {
	t, err := unix.IoctlGetTermios(int(in.Fd()), readMode)
	if err != nil {
		return nil, err
	}
	k := &keyboard{in: in, out: out, original: *t, colorful: colorful}
	return k, k.running()
}

func (k *keyboard) colored(color, text string) string {
	if !k.colorful {
		return text
	}
	return color + text + colorReset
}

// restore sets the original mode of the terminal.
func (k *keyboard) restore() { k.set(k.original) }

// abandon restores the terminal while the editor still reads from it.
func (k *keyboard) abandon() {
	_, _ = io.WriteString(k.out, "\x1b[?2004l\r\n") // disable bracketed paste, which the editor enabled
	k.restore()
}

// set sets a mode of the terminal. It ignores the error: an error means that the terminal was closed, and the next read
// reports that.
func (k *keyboard) set(t unix.Termios) { _ = unix.IoctlSetTermios(int(k.in.Fd()), writeMode, &t) }

// running sets the mode for a running command. In this mode, Ctrl-C is a signal, and all other keys are
// stored for the next command.
func (k *keyboard) running() error {
	t := k.withoutKeys()
	t.Lflag &^= unix.ICANON | unix.ECHO
	t.Lflag |= unix.ISIG
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(int(k.in.Fd()), writeMode, &t)
}

// asking sets the mode in which the user answers a question. In this mode, the terminal echoes one line and lets the
// user edit it.
func (k *keyboard) asking() {
	t := k.withoutKeys()
	t.Lflag |= unix.ICANON | unix.ECHO | unix.ISIG
	t.Iflag |= unix.ICRNL
	k.set(t)
}

// withoutKeys returns the original mode without the keys that suspend a program or end a program with a stack trace.
func (k *keyboard) withoutKeys() unix.Termios {
	t := k.original
	t.Cc[unix.VQUIT], t.Cc[unix.VSUSP] = noKey, noKey
	return t
}

// takeAhead returns the keys that were typed before a question, and removes them from k.
func (k *keyboard) takeAhead() []byte {
	out := k.ahead
	k.ahead = nil
	return out
}

// line shows a question and reads the answer. Keys that were typed before the question was visible are not part of the
// answer. They are stored for the next command.
func (k *keyboard) line(ctx context.Context, show func()) (string, error) {
	defer k.running() //nolint:errcheck // the next read reports a closed terminal
	if err := k.store(ctx, quiet); err != nil {
		return "", err
	}
	k.asking()
	show()
	var typed []byte
	for {
		part, err := k.read(ctx, -1)
		if err != nil {
			return "", err
		}
		typed = append(typed, part...)
		if end := bytes.IndexAny(typed, "\r\n"); end >= 0 {
			k.ahead = append(k.ahead, typed[end+1:]...)
			return string(bytes.TrimSpace(typed[:end])), nil
		}
		if len(part) == 0 { // empty input means Ctrl-D
			return "", io.EOF
		}
	}
}

// store stores the pending input for the next command. If there is some, it goes on until the user pauses.
func (k *keyboard) store(ctx context.Context, pause time.Duration) error {
	for wait := time.Duration(0); ; wait = pause {
		part, err := k.read(ctx, wait)
		if len(part) == 0 || err != nil {
			return err
		}
		k.ahead = append(k.ahead, part...)
	}
}

// read returns the pending input of the terminal. It returns nil if the user types nothing until the timeout. If the
// timeout is negative, read waits without limit. If ctx is canceled, read returns early.
func (k *keyboard) read(ctx context.Context, timeout time.Duration) ([]byte, error) {
	wake, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer wake.Close() //nolint:errcheck // only read from
	stop := context.AfterFunc(ctx, func() { _ = end.Close() })
	defer func() {
		if stop() {
			_ = end.Close()
		}
	}()
	milliseconds := -1
	if timeout >= 0 {
		milliseconds = int(timeout.Milliseconds())
	}
	for {
		fds := []unix.PollFd{{Fd: int32(k.in.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, milliseconds)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case n == 0:
			return nil, nil
		}
		buf := make([]byte, 4096)
		n, err = unix.Read(int(k.in.Fd()), buf)
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// colorful reports whether a stream can show colors. The stream must be a terminal, and NO_COLOR and TERM must not
// exclude colors.
func colorful(stdio process.Stdio, stream io.Writer) bool {
	return stdio.Getenv("NO_COLOR") == "" && stdio.Getenv("TERM") != "dumb" && screen.IsTerminal(stream)
}
