//go:build linux

package seccomp

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

var (
	deniedHere   = []uint32{unix.SYS_NFSSERVCTL}
	forks        []uint32 // arm64 has only the call clone, which is checked separately
	metadataHere []uint32 // arm64 has only the calls with a directory descriptor
)
