package freshness

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// This map contains the types of file systems to which only this machine writes. The kernel reports every change on
// these file systems.
var local = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
	unix.RAMFS_MAGIC:      true,
	unix.F2FS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, unix.SQUASHFS_MAGIC: true,
	unix.EROFS_SUPER_MAGIC_V1: true, unix.MSDOS_SUPER_MAGIC: true,
	unix.REISERFS_SUPER_MAGIC: true, unix.ISOFS_SUPER_MAGIC: true, 0x2FC12FC1: true /* zfs */, 0xCA451A4E: true /* bcachefs */, 0x2011BAB0: true, /* exfat */
	0x3153464A: true, // the type of jfs
}

// This map contains the types of file systems that generate the content of a file at each read.
var synthetic = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
	unix.CGROUP_SUPER_MAGIC:  true,
	unix.CGROUP2_SUPER_MAGIC: true, unix.SECURITYFS_MAGIC: true, unix.BPF_FS_MAGIC: true, unix.DEVPTS_SUPER_MAGIC: true,
	unix.EFIVARFS_MAGIC: true,
}

// KindOf returns the method that detects changes on the file system of f.
func KindOf(f *os.File) Kind {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	runtime.KeepAlive(f)
	switch t := int64(st.Type) & 0xFFFFFFFF; { //nolint:unconvert // systems differ
	case err != nil, synthetic[t]:
		return NotKnown
	case t == unix.OVERLAYFS_SUPER_MAGIC && inBranch(f):
		return Layered // the workspace is the layer below the branch, and the kernel does not report changes in the workspace
	case local[t]:
		return Watched
	}
	return ByStat
}

// branches returns the devices of the branches that this process sees. The mounts of a process do not change.
var branches = sync.OnceValue(func() map[string]bool {
	out := make(map[string]bool)
	all, err := os.ReadFile(mountInfo)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(all)) {
		place, source, ok := strings.Cut(line, " - ")
		if f := strings.Fields(place); ok && len(f) > 2 && strings.HasPrefix(source, "overlay toolhost-branch-") {
			out[f[2]] = true
		}
	}
	return out
})

// inBranch reports whether a directory is in a branch, which is a layer over the workspace.
func inBranch(f *os.File) bool {
	known := branches()
	if len(known) == 0 {
		return false
	}
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	runtime.KeepAlive(f)
	return err == nil && known[fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))] //nolint:unconvert // systems differ
}
