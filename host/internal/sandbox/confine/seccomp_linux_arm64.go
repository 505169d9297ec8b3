package confine

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

var (
	deniedHere   = []uint32{unix.SYS_NFSSERVCTL}
	forks        []uint32 // clone is the only one
	metadataHere []uint32 // the calls that take a directory are the only ones
)
