// Command toolhost-shim is what "tool:NAME" and "field:NAMESPACE" are in a command: a
// link of that name leads here. It hands its arguments to the host of the call that
// the command belongs to, and standard input when the host asks for it, and prints
// what comes back.
//
// It is started for every use, so it imports next to nothing.
package main

import (
	"io"
	"os"
	"syscall"

	"toolhost.dev/host/internal/shim/wire"
)

// Exit statuses of a shim that cannot do its work, as a shell has them for a program
// that cannot be run.
const (
	cannotRun = 126
	notFound  = 127
)

const (
	// inherited is where a descriptor of the host's socket is, when it was passed on.
	inherited = "/proc/self/fd/201"

	commandsEnv = "TOOLHOST_COMMANDS"
	callEnv     = "TOOLHOST_CALL"

	goneText        = "the tool host went away"
	endedText       = "the call was ended by the tool host"
	noSocketText    = "no socket can be made"
	noDirectoryText = "the working directory is gone: change to one that exists"
	noStdinText     = "standard input cannot be read"
	tooLongText     = "the arguments are too long: give long text on standard input, or in a file"
	unreachableText = "the tool host cannot be reached: tools work in commands that it runs, as long as their call lasts"
)

func main() {
	conn := connect()
	name := os.Args[0]
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			name = name[i+1:]
			break
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		fail(cannotRun, noDirectoryText)
	}
	req := wire.Request{Token: os.Getenv(callEnv), Name: name, Cwd: cwd, Stdin: stdin(), Args: os.Args[1:]}
	if err := wire.WriteRequest(conn, req); err != nil {
		if err == wire.ErrTooLong { //nolint:errorlint // it is not wrapped, and errors.Is has a price at the start
			fail(cannotRun, tooLongText)
		}
		fail(cannotRun, goneText)
	}
	var buf []byte
	for {
		kind, payload, err := wire.ReadFrame(conn, &buf)
		if err != nil {
			fail(cannotRun, endedText)
		}
		switch kind {
		case wire.Stdout:
			write(os.Stdout, payload)
		case wire.Stderr:
			write(os.Stderr, payload)
		case wire.WantStdin:
			go sendStdin(conn)
		case wire.Exit:
			status := cannotRun
			if len(payload) == 1 {
				status = int(payload[0])
			}
			os.Exit(status)
		case wire.Stdin: // the host has none to give
		}
	}
}

// connect finds the host: by a descriptor that came all the way, which works in
// any namespace, else where the environment says.
func connect() *os.File {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		fail(cannotRun, noSocketText)
	}
	syscall.CloseOnExec(fd)
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: inherited})
	if path := os.Getenv(commandsEnv); err != nil && path != "" {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err != nil {
		fail(notFound, unreachableText)
	}
	return os.NewFile(uintptr(fd), "host")
}

func write(w *os.File, b []byte) {
	if _, err := w.Write(b); err != nil {
		os.Exit(cannotRun) // a closed pipe has ended the program by then
	}
}

func sendStdin(conn *os.File) {
	buf := make([]byte, wire.MaxFrame)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 && wire.WriteFrame(conn, wire.Stdin, buf[:n]) != nil {
			return // the reader says why
		}
		if err == io.EOF {
			_ = wire.WriteFrame(conn, wire.Stdin, nil)
			return
		}
		if err != nil {
			fail(cannotRun, noStdinText)
		}
	}
}

// stdin says what standard input is.
func stdin() string {
	var st syscall.Stat_t
	if syscall.Fstat(0, &st) != nil {
		return ""
	}
	return kindOf(uint32(st.Mode))
}

func kindOf(mode uint32) string {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFIFO, syscall.S_IFSOCK:
		return wire.Piped
	case syscall.S_IFREG:
		return wire.Given
	}
	return ""
}

func fail(status int, why string) {
	_, _ = os.Stderr.WriteString(os.Args[0] + ": " + why + "\n")
	os.Exit(status)
}
