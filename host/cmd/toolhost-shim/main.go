// Command toolhost-shim implements the programs "tool:NAME" and "field:NAMESPACE", which are links to its binary. It
// sends its arguments to the host that runs the call in which the command is executed. It also sends standard input if
// the host requests it, and prints the output that the host sends.
//
// Every use of a tool starts the program, so it has few imports.
package main

import (
	"io"
	"os"
	"syscall"

	"toolhost.dev/host/internal/shim/wire"
)

// Exit statuses of a shim that fails. They are the statuses that a shell returns for a program that it cannot run.
const (
	cannotRun = 126
	notFound  = 127
)

const (
	// inherited is the path of the host's socket if the process inherited a descriptor of it.
	inherited = "/proc/self/fd/201"

	commandsEnv = "TOOLHOST_COMMANDS"
	callEnv     = "TOOLHOST_CALL"

	goneText        = "the tool host went away"
	endedText       = "the call was ended by the tool host"
	noSocketText    = "no socket can be created"
	noDirectoryText = "the working directory is gone: change to one that exists"
	noStdinText     = "standard input cannot be read"
	tooLongText     = "the arguments are too long: pass long text on standard input or in a file"
	unreachableText = "the tool host cannot be reached: tools work only in commands that the host runs, and only until the call ends"
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
		if err == wire.ErrTooLong { //nolint:errorlint // the error is not wrapped, and errors.Is would slow down the start
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
		case wire.Stdin: // the host never sends standard input
		}
	}
}

// connect connects to the host. It first tries the inherited descriptor, which works in any namespace. Then it tries
// the path in the environment.
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
		os.Exit(cannotRun) // after a write to a closed pipe, SIGPIPE has already ended the program
	}
}

func sendStdin(conn *os.File) {
	buf := make([]byte, wire.MaxFrame)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 && wire.WriteFrame(conn, wire.Stdin, buf[:n]) != nil {
			return // the goroutine that reads the connection reports the error
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

// stdin returns the kind of standard input; see package wire.
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
