//go:build linux && (amd64 || arm64)

package main

import (
	"syscall"
	"unsafe"

	"toolhost.dev/host/internal/shim/wire"
)

// Every use of a tool starts a shim, and starting Go's runtime takes longer than all the work of a shim. If the program
// is linked with -E main.entry, it starts at entry instead and without the runtime. Therefore, the code below must not
// allocate memory, start goroutines, defer or panic. It only makes system calls and uses static memory. Without that
// flag the program starts at main and has the same behavior. See docs/adr/0022-shell.md.

// entry is the program's entry point. It calls run.
func entry()

// Only the linker and the assembler use these symbols.
var _, _, _, _ = entry, run, &fakeG, &threadLocal

var (
	// fakeG replaces the goroutine structure. Its stack limit is 0, so that every stack check passes.
	fakeG       [1024]byte
	threadLocal [128]byte

	buf     [wire.MaxFrame]byte
	used    int // number of request bytes in buf
	address [2 + 108]byte
	self    cstring // name of the program in the command
)

// cstring is a text that ends with a NUL byte, in memory of the kernel's initial stack.
type cstring = *byte

// arguments is the initial stack of the process: argc, argv, a null pointer, envp, a null pointer.
type arguments = *[1 << 24]cstring

// call makes a system call. If a signal interrupts the system call, call makes it again.
func call(nr, a, b, c uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(nr, a, b, c)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

func pointer(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

func exit(status int) {
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(status), 0, 0)
	}
}

func length(s cstring) int {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return n
}

func bytesOf(s cstring) []byte { return unsafe.Slice(s, length(s)) }

// send writes all of b to a descriptor. Writing to a closed socket returns an error and raises no signal.
func send(fd int, b []byte, socket bool) bool {
	for len(b) > 0 {
		var n int
		var errno syscall.Errno
		if socket {
			r, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), pointer(&b[0]), uintptr(len(b)),
				syscall.MSG_NOSIGNAL, 0, 0)
			n, errno = int(r), e
			if errno == syscall.EINTR {
				continue
			}
		} else {
			n, errno = call(syscall.SYS_WRITE, uintptr(fd), pointer(&b[0]), uintptr(len(b)))
		}
		if errno != 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// receive fills b with bytes from a descriptor. It returns false if the input ends before b is full.
func receive(fd int, b []byte) bool {
	for len(b) > 0 {
		n, errno := call(syscall.SYS_READ, uintptr(fd), pointer(&b[0]), uintptr(len(b)))
		if errno != 0 || n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

func say(s string) { send(2, unsafe.Slice(unsafe.StringData(s), len(s)), false) }

func die(status int, why string) {
	send(2, bytesOf(self), false)
	say(": ")
	say(why)
	say("\n")
	exit(status)
}

// put adds one part to the request. It adds a NUL byte after every part except the last one.
func put(conn int, b []byte, last bool) {
	for len(b) > 0 {
		n := copy(buf[used:], b)
		b, used = b[n:], used+n
		flush(conn, used == len(buf))
	}
	if !last {
		buf[used] = 0
		used++
		flush(conn, used == len(buf))
	}
}

func flush(conn int, now bool) {
	if now {
		if !send(conn, buf[:used], true) {
			die(cannotRun, goneText)
		}
		used = 0
	}
}

// variable returns the value of an environment variable. The argument "name" must end with "=". The environment begins
// at args[at].
func variable(args arguments, at int, name string) cstring {
	for ; args[at] != nil; at++ {
		s := args[at]
		i := 0
		for i < len(name) && *(*byte)(unsafe.Add(unsafe.Pointer(s), i)) == name[i] {
			i++
		}
		if i == len(name) {
			return cstring(unsafe.Add(unsafe.Pointer(s), i))
		}
	}
	return nil
}

// connectTo connects to a socket by its path.
func connectTo(conn int, path []byte) bool {
	if len(path) == 0 || len(path) >= len(address)-2 {
		return false
	}
	*(*uint16)(unsafe.Pointer(&address)) = syscall.AF_UNIX
	n := copy(address[2:], path)
	address[2+n] = 0
	_, errno := call(syscall.SYS_CONNECT, uintptr(conn), pointer(&address[0]), uintptr(2+n+1))
	return errno == 0
}

// run does the same as main.
func run(args arguments) {
	argc := int(uintptr(unsafe.Pointer(args[0]))) // the first element is the number argc, not a pointer
	if argc == 0 {
		exit(cannotRun)
	}
	self = args[1]
	env := argc + 2
	conn, errno := call(syscall.SYS_SOCKET, syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if errno != 0 {
		die(cannotRun, noSocketText)
	}
	if conn <= 2 { // do not use a standard descriptor that the caller closed
		above, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(conn), syscall.F_DUPFD_CLOEXEC, 3)
		if errno != 0 {
			exit(cannotRun)
		}
		_, _ = call(syscall.SYS_CLOSE, uintptr(conn), 0, 0)
		conn = int(above)
	}
	path := variable(args, env, commandsEnv+"=")
	if !connectTo(conn, unsafe.Slice(unsafe.StringData(inherited), len(inherited))) &&
		(path == nil || !connectTo(conn, bytesOf(path))) {
		die(notFound, unreachableText)
	}
	request(conn, args, argc, env)
	answer(conn)
}

// request sends the request in the format of wire.WriteRequest.
func request(conn int, args arguments, argc, env int) {
	var token []byte
	if t := variable(args, env, callEnv+"="); t != nil {
		token = bytesOf(t)
	}
	name := bytesOf(self)
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			name = name[i+1:]
			break
		}
	}
	// The buffer has the size of the kernel's limit for paths.
	var cwd [4096]byte
	n, errno := call(syscall.SYS_GETCWD, pointer(&cwd[0]), uintptr(len(cwd)), 0)
	if errno != 0 || n < 2 || cwd[0] != '/' {
		die(cannotRun, noDirectoryText)
	}
	here := cwd[:n-1]
	var stat syscall.Stat_t
	_, errno = call(syscall.SYS_FSTAT, 0, uintptr(unsafe.Pointer(&stat)), 0)
	kind := ""
	if errno == 0 {
		kind = kindOf(stat.Mode)
	}

	total := len(token) + 1 + len(name) + 1 + len(here) + 1 + len(kind)
	for i := 1; i < argc; i++ {
		total += 1 + length(args[1+i])
	}
	if total > wire.MaxRequest {
		die(cannotRun, tooLongText)
	}
	buf[0], buf[1], buf[2], buf[3] = byte(total>>24), byte(total>>16), byte(total>>8), byte(total)
	used = 4
	put(conn, token, false)
	put(conn, name, false)
	put(conn, here, false)
	if kind != "" {
		put(conn, unsafe.Slice(unsafe.StringData(kind), len(kind)), true)
	}
	for i := 1; i < argc; i++ {
		put(conn, nil, false)
		put(conn, bytesOf(args[1+i]), true)
	}
	flush(conn, used > 0)
}

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

const pollIn = 1

// answer processes the host's frames until the exit frame.
func answer(conn int) {
	feeding := false
	for {
		if feeding {
			fds := [2]pollFD{{fd: int32(conn), events: pollIn}, {fd: 0, events: pollIn}}
			if _, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, 0, 0, 0,
				0); errno != 0 && errno != syscall.EINTR {
				die(cannotRun, goneText)
			}
			if fds[0].revents == 0 {
				if fds[1].revents != 0 {
					feeding = feed(conn)
				}
				continue
			}
		}
		var head [5]byte
		if !receive(conn, head[:]) {
			die(cannotRun, endedText)
		}
		n := int(head[1])<<24 | int(head[2])<<16 | int(head[3])<<8 | int(head[4])
		if n > len(buf) || !receive(conn, buf[:n]) {
			die(cannotRun, endedText)
		}
		switch wire.Kind(head[0]) {
		case wire.Stdout:
			if !send(1, buf[:n], false) {
				exit(cannotRun)
			}
		case wire.Stderr:
			if !send(2, buf[:n], false) {
				exit(cannotRun)
			}
		case wire.WantStdin:
			feeding = true
		case wire.Exit:
			status := cannotRun
			if n == 1 {
				status = int(buf[0])
			}
			exit(status)
		case wire.Stdin: // the host never sends standard input
		}
	}
}

// feed sends the available standard input. It returns true if more input can follow.
func feed(conn int) bool {
	n, errno := call(syscall.SYS_READ, 0, pointer(&buf[0]), uintptr(len(buf)))
	if errno != 0 {
		die(cannotRun, noStdinText)
	}
	var head [5]byte
	head[0], head[2], head[3], head[4] = byte(wire.Stdin), byte(n>>16), byte(n>>8), byte(n)
	send(conn, head[:], true) // ignore the result, because the next read detects a lost connection
	send(conn, buf[:n], true)
	return n > 0
}
