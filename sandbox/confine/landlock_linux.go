package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newestABI is the newest version of Landlock that this package supports. The package does not enforce access rights of
// later versions, because existing programs can rely on them.
const newestABI = 7

// rights lists the access rights that each version of Landlock adds.
var rights = []struct {
	abi    int
	rights uint64
}{
	{1, unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{2, unix.LANDLOCK_ACCESS_FS_REFER},
	{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
}

const (
	readRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	runRights   = readRights | unix.LANDLOCK_ACCESS_FS_EXECUTE
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		// Landlock requires REFER for moving a file to another directory.
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// fileRights are the rights that a rule about a file can contain.
	fileRights = runRights&^unix.LANDLOCK_ACCESS_FS_READ_DIR | deviceRights
)

// LandlockABI returns the version of Landlock that this kernel enforces, but at most newestABI. Zero means that the
// kernel does not support Landlock.
func LandlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return min(int(abi), newestABI)
}

// landlock restricts the current thread to the policy.
func landlock(p *Policy) error {
	if p.ABI < 1 {
		return nil
	}
	var handled uint64
	for _, r := range rights {
		if p.ABI >= r.abi {
			handled |= r.rights
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if p.ABI >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	ruleset := int(fd)
	defer func() { _ = unix.Close(ruleset) }()
	write := uint64(writeRights)
	if p.StartProcesses {
		write |= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	run := uint64(runRights)
	if p.Execute != nil {
		run, write = readRights, write&^unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	rules := []rule{{p.Read, readRights}, {p.Run, run}, {p.Execute, unix.LANDLOCK_ACCESS_FS_EXECUTE}, {p.Write, write},
		{p.Devices, deviceRights}}
	if p.Namespaces {
		// Processes can list all directories in the new root. Terminals need the rights for devices.
		rules = append(rules, rule{p.Scratch, write}, rule{[]string{"/"}, unix.LANDLOCK_ACCESS_FS_READ_DIR}, rule{
			[]string{"/dev/pts"}, deviceRights,
		})
	}
	anyPath := func(path string) (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) }
	for _, rule := range rules {
		for _, path := range rule.paths {
			if err := allow(ruleset, path, anyPath, rule.rights&handled); err != nil {
				return err
			}
		}
	}
	for _, path := range p.Direct {
		if err := allow(ruleset, path, openDirect, readRights&handled); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}

type rule struct {
	paths  []string
	rights uint64
}

// allow adds a rule for a path and everything below it. It skips a missing or inaccessible path, because Landlock
// denies access without a rule.
func allow(ruleset int, path string, open func(string) (int, error), access uint64) error {
	fd, err := open(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) ||
		errors.Is(err, unix.ELOOP) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s cannot be inspected: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileRights
	}
	if access == 0 {
		return nil
	}
	// Go can add padding at the end of the kernel's packed structure. The padding is harmless.
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_add_rule for %s: %w", path, errno)
	}
	return nil
}
