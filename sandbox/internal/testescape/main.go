//go:build linux

// Command testescape tries to escape from a sandbox with a rarely used system call. It prints "ESCAPED" if the kernel
// permits the call. Only tests use it.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts contains ways to escape from a sandbox, by name. The argument n is a process id or a port.
var attempts = map[string]func(n int) error{
	"ptrace": unix.PtraceSeize,
	"read-memory": func(pid int) error {
		b := make([]byte, 8)
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 8}},
			[]unix.RemoteIovec{{Base: 0x1000, Len: 8}}, 0)
		if err == unix.EFAULT { // the kernel permits the read and only rejects the address
			return nil
		}
		return err
	},
	"steal-descriptor": func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	},
	"limit-other": func(pid int) error {
		var old unix.Rlimit
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	},
	"io_uring": func(int) error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
	},
	"keyring": func(int) error {
		_, err := unix.AddKey("user", "toolhost", []byte("x"), unix.KEY_SPEC_SESSION_KEYRING)
		return err
	},
	"bpf": func(int) error {
		attr := [32]uint32{2 /* an array */, 4, 4, 1}
		return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	},
	"userfaultfd": func(int) error { return call(unix.SYS_USERFAULTFD, 1) },
	"perf": func(int) error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Bits: unix.PerfBitExcludeKernel}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	},
	"fanotify": func(int) error { _, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, 0); return err },
	"open-by-handle": func(int) error {
		handle, at, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
		if err != nil {
			return err
		}
		_ = at
		dir, err := unix.Open(".", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
		return err
	},
	"tiocsti": func(int) error {
		ptmx, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		b := byte('x')
		return call(unix.SYS_IOCTL, uintptr(ptmx), unix.TIOCSTI, uintptr(unsafe.Pointer(&b)))
	},
	"start": func(int) error { return exec.Command(os.Args[0], "write", "0", os.DevNull).Run() }, //nolint:gosec // itself
	"read": func(int) error {
		_, err := os.ReadFile(os.Args[3])
		return err
	},
	"write":  func(int) error { return os.WriteFile(os.Args[3], []byte("x"), 0o600) },
	"rename": func(int) error { return os.Rename(os.Args[3], os.Args[3]+"-moved") },
	"chmod":  func(int) error { return os.Chmod(os.Args[3], 0o400) },
	"datagram": func(int) error {
		_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	},
	"wake-at-once": func(int) error {
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err == nil && slack > 50_000 {
			err = fmt.Errorf("it may be %d ns late", slack)
		}
		return err
	},
	"shared-memory": func(key int) error {
		_, err := unix.SysvShmGet(key, 4096, 0)
		return err
	},
	"tcp":  func(port int) error { return talk("tcp", "127.0.0.1:"+strconv.Itoa(port)) },
	"tcp6": func(port int) error { return talk("tcp", "[::1]:"+strconv.Itoa(port)) },
	"udp":  func(port int) error { return talk("udp", "127.0.0.1:"+strconv.Itoa(port)) },
	"mptcp": func(port int) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	},
	"fastopen": func(port int) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{
			Port: port, Addr: [4]byte{127, 0, 0, 1},
		})
	},
	"abstract": func(int) error { return talk("unix", "@"+os.Args[3]) },
	"path":     func(int) error { return talk("unix", os.Args[3]) },
	"family": func(family int) error {
		kind := unix.SOCK_STREAM
		switch family {
		case unix.AF_PACKET:
			kind = unix.SOCK_RAW
		case unix.AF_ALG:
			kind = unix.SOCK_SEQPACKET
		}
		_, err := unix.Socket(family, kind, 0)
		return err
	},
	"raw": func(int) error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); return err },
	"memory": func(mb int) error {
		b, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err == nil {
			b[0] = 1
		}
		return err
	},
	// The attempt "hold" uses memory for a while.
	"hold": func(mb int) error {
		_, err := use(mb)
		time.Sleep(5 * time.Second)
		return err
	},
	// The attempt "share" uses memory that four more processes share.
	"share": func(mb int) error {
		b, err := use(mb)
		for range 4 {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 { // only system calls are safe in a copy of a process with threads
				pause := unix.Timespec{Sec: 2}
				_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		for range 4 {
			if _, waitErr := unix.Wait4(-1, nil, 0, nil); err == nil {
				err = waitErr
			}
		}
		b[0] = 1
		return err
	},
	"processes": func(n int) error {
		for range n {
			c := exec.Command("sleep", "60")
			if err := c.Start(); err != nil {
				return err
			}
			defer func() { _ = c.Process.Kill() }()
		}
		return nil
	},
}

// use returns memory after writing to all of its pages.
func use(mb int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b, err
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// talk connects to an address and waits for an answer.
func talk(network, address string) error {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

func main() {
	n := 0
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2]) // 0 if the argument is a name
	}
	attempt := attempts[os.Args[1]]
	if attempt == nil {
		fmt.Println("there is no attempt", os.Args[1])
		os.Exit(2)
	}
	if err := attempt(n); err != nil {
		fmt.Println(os.Args[1], "failed:", err)
		os.Exit(1)
	}
	fmt.Println("ESCAPED")
}
