package workspace

import (
	"io/fs"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookupWithoutLinks looks up rel in the tree with one system call. The result ok is false if the file does not
// exist, the path contains a symbolic link, or the kernel or a seccomp filter does not permit the system call.
func lookupWithoutLinks(t *tree, rel string) (fs.FileMode, bool) {
	fd, err := unix.Openat2(int(t.probe.Fd()), rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	runtime.KeepAlive(t.probe)
	if err != nil {
		return 0, false
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	_ = unix.Close(fd)
	if err != nil {
		return 0, false
	}
	return FileType(st.Mode), true
}

// sameWithoutLinks returns an error unless path leads to the given directory without symbolic links.
func sameWithoutLinks(path string, info fs.FileInfo) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	switch err {
	case nil:
	case unix.ENOSYS, unix.EPERM:
		return sameStepwise(path, info)
	case unix.ELOOP:
		return errLink
	default:
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Dev != st.Dev || s.Ino != st.Ino {
		return errLink
	}
	return nil
}
