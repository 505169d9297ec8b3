package execgate

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageSize = 4096
	// slot is the number of bytes that the first read fetches from each string.
	slot = 256
	// batch is the number of strings that one system call reads.
	batch = 64
	// maxText limits the length of one string, in bytes. maxBytes limits the total length of the arguments, in bytes.
	// The limits of the kernel are lower.
	maxText  = 1 << 18
	maxBytes = 8 << 20
)

// memory reads the memory of stopped processes. Only one goroutine can use it, because it reuses its buffers.
type memory struct {
	pid    int
	path   [pageSize]byte
	ptrs   [pageSize]byte
	slots  [batch * slot]byte
	local  [2]unix.Iovec
	remote [batch]unix.RemoteIovec
	failed unix.Errno // the error of the last read
}

// read reads several spans into consecutive buffers and returns the number of bytes. A span must not cross the end of a
// page, because the next page can be missing.
func (m *memory) read(locals, remotes int) int {
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(m.pid), uintptr(unsafe.Pointer(&m.local[0])),
		uintptr(locals), uintptr(unsafe.Pointer(&m.remote[0])), uintptr(remotes), 0)
	if m.failed = errno; errno != 0 {
		return 0
	}
	return int(n)
}

// fault returns the error for a process whose memory cannot be read.
func (m *memory) fault() unix.Errno {
	if m.failed == unix.EPERM {
		return unix.EPERM
	}
	return unix.EFAULT
}

// rest returns the number of bytes up to the end of the page, but at most limit.
func rest(at uint64, limit int) int { return min(pageSize-int(at%pageSize), limit) }

// peek reads at most len(into) bytes at an address, and stops at the end of the page.
func (m *memory) peek(at uint64, into []byte) int {
	n := rest(at, len(into))
	m.local[0].Base = &into[0]
	m.local[0].SetLen(n)
	m.remote[0] = unix.RemoteIovec{Base: uintptr(at), Len: n}
	return m.read(1, 1)
}

// begin reads the path and the first pointers of the arguments with one system call.
func (m *memory) begin(path, argv uint64) (text string, pointers []byte, errno unix.Errno) {
	np, na := rest(path, pageSize), rest(argv, 1024)
	m.local[0].Base, m.local[1].Base = &m.path[0], &m.ptrs[0]
	m.local[0].SetLen(np)
	m.local[1].SetLen(na)
	m.remote[0], m.remote[1] = unix.RemoteIovec{Base: uintptr(path), Len: np},
		unix.RemoteIovec{Base: uintptr(argv), Len: na}
	n := m.read(2, 2)
	if n < np {
		return "", nil, m.fault()
	}
	if end := bytes.IndexByte(m.path[:np], 0); end >= 0 {
		text = string(m.path[:end])
	} else {
		more, errno := m.text(path+uint64(np), unix.PathMax)
		if errno != 0 {
			return "", nil, errno
		}
		text = string(m.path[:np]) + more
	}
	if len(text) >= unix.PathMax {
		return "", nil, unix.ENAMETOOLONG
	}
	return text, m.ptrs[:max(n-np, 0)], 0
}

// text reads a string that ends in NUL.
func (m *memory) text(at uint64, limit int) (string, unix.Errno) {
	var out []byte
	var page [pageSize]byte
	for len(out) < limit {
		n := m.peek(at, page[:])
		if n <= 0 {
			return "", m.fault()
		}
		if end := bytes.IndexByte(page[:n], 0); end >= 0 {
			return string(append(out, page[:end]...)), 0
		}
		out, at = append(out, page[:n]...), at+uint64(n)
	}
	return "", unix.E2BIG
}

// words calls the function "each" for every string of an array. The argument "first" contains the beginning of the
// array, or is empty. The function "each" receives the address of a string and its first bytes. Its argument "ends"
// reports whether these bytes are the whole string.
func (m *memory) words(at uint64, first []byte, each func(at uint64, begin []byte, ends bool) unix.Errno) unix.Errno {
	if at == 0 {
		return 0
	}
	var pointers [batch]uint64
	for {
		if len(first) < 8 {
			n := m.peek(at, m.ptrs[:])
			if n < 8 { // only a manipulated program has a pointer that crosses the end of a page
				return m.fault()
			}
			first = m.ptrs[:n]
		}
		n, last := 0, false
		for ; n < batch && len(first) >= 8; n++ {
			p := binary.NativeEndian.Uint64(first)
			first, at = first[8:], at+8
			if last = p == 0; last {
				break
			}
			pointers[n] = p
		}
		if errno := m.strings(pointers[:n], each); errno != 0 || last {
			return errno
		}
	}
}

// strings reads the beginnings of strings with one system call.
func (m *memory) strings(pointers []uint64, each func(at uint64, begin []byte, ends bool) unix.Errno) unix.Errno {
	if len(pointers) == 0 {
		return 0
	}
	total := 0
	for i, p := range pointers {
		n := rest(p, slot)
		m.remote[i] = unix.RemoteIovec{Base: uintptr(p), Len: n}
		total += n
	}
	m.local[0].Base = &m.slots[0]
	m.local[0].SetLen(total)
	if m.read(1, len(pointers)) < total {
		return m.fault()
	}
	from := 0
	for i, p := range pointers {
		b := m.slots[from : from+m.remote[i].Len]
		from += len(b)
		end := bytes.IndexByte(b, 0)
		if end >= 0 {
			b = b[:end]
		}
		if errno := each(p, b, end >= 0); errno != 0 {
			return errno
		}
	}
	return 0
}

// argv reads the arguments. The argument "first" contains the beginning of the array.
func (m *memory) argv(at uint64, first []byte) ([]string, unix.Errno) {
	type long struct {
		index int
		at    uint64
	}
	var out []string
	var longs []long // long strings are read later, because their reads reuse the buffers
	size := 0
	errno := m.words(at, first, func(p uint64, begin []byte, ends bool) unix.Errno {
		if !ends {
			longs = append(longs, long{len(out), p})
		}
		out = append(out, string(begin))
		if size += len(begin) + 9; size > maxBytes {
			return unix.E2BIG
		}
		return 0
	})
	if errno != 0 {
		return nil, errno
	}
	for _, l := range longs {
		if out[l.index], errno = m.text(l.at, maxText); errno != 0 {
			return nil, errno
		}
		if size += len(out[l.index]); size > maxBytes {
			return nil, unix.E2BIG
		}
	}
	return out, 0
}

// tokenName is the environment variable with the token of a call.
const tokenName = "TOOLHOST_CALL"

// environment contains the data that the gate reads from the environment of a process.
type environment struct {
	token       string   // token of a call
	workTree    string   // value of GIT_WORK_TREE
	preloads    []string // names of variables that make the dynamic linker load code
	gitSettings bool     // whether a variable changes git settings
	gitDir      bool     // whether GIT_DIR is set
}

func (m *memory) environment(at uint64) (out environment, errno unix.Errno) {
	long := uint64(0) // address of a long GIT_WORK_TREE, which is read later
	size := 0
	errno = m.words(at, nil, func(p uint64, begin []byte, ends bool) unix.Errno {
		name, v, _ := bytes.Cut(begin, []byte("="))
		switch text := string(name); {
		case text == tokenName:
			out.token = string(v)
		case text == "GIT_WORK_TREE":
			if out.workTree = string(v); !ends {
				long = p + uint64(len(begin)-len(v))
			}
		case strings.HasPrefix(text, "LD_"), text == "GCONV_PATH":
			out.preloads = append(out.preloads, text)
		case strings.HasPrefix(text, "GIT_CONFIG") && text != "GIT_CONFIG_NOSYSTEM":
			out.gitSettings = true
		case text == "GIT_DIR":
			out.gitDir = true
		}
		if size += len(begin) + 9; size > maxBytes {
			return unix.E2BIG
		}
		return 0
	})
	if long != 0 && errno == 0 {
		out.workTree, errno = m.text(long, maxText)
	}
	return out, errno
}
