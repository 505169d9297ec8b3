package workspace

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attributes contains the attributes of a file, except its content and mode. A removed file can be created again
// with its saved attributes. See [WriteOptions.Attributes].
type Attributes struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Extended holds the extended attributes, including access control lists.
	Extended map[string][]byte `json:"extended,omitempty"`
	// Unknown describes the attributes that could not be read.
	Unknown string `json:"unknown,omitempty"`
}

// Attributes returns the attributes of a regular file. It returns nil on systems that do not support them.
func (w *Workspace) Attributes(p Path) (*Attributes, error) {
	f, info, err := w.open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, nil
	}
	a := &Attributes{UID: int(st.Uid), GID: int(st.Gid)}
	fd := int(f.Fd())
	a.Extended, err = attributes(fd)
	capability, none := sized(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, Capability, buf) })
	if err != nil {
		a.Unknown = fmt.Sprintf("its extended attributes could not be read (%v)", cause(err))
	} else if none == nil {
		if a.Extended == nil {
			a.Extended = make(map[string][]byte)
		}
		a.Extended[Capability] = capability
	}
	return a, nil
}

// Capability is the extended attribute for the capabilities of a program. It is valid only for the content for which
// it was set. See [Attributes.OfOtherContent].
const Capability = "security.capability"

// OfOtherContent returns the attributes that remain valid if the content of the file changes. It returns nil if a is
// nil.
func (a *Attributes) OfOtherContent() *Attributes {
	if a == nil || a.Extended[Capability] == nil {
		return a
	}
	other := *a
	other.Extended = maps.Clone(a.Extended)
	delete(other.Extended, Capability)
	return &other
}

// apply sets the attributes and the mode of a new file. The result "refused" describes the attributes that the
// system rejected.
func (a *Attributes) apply(f *os.File, mode fs.FileMode) (refused []string, err error) {
	fd := int(f.Fd())
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return nil, err
	}
	if a.Unknown != "" {
		refused = append(refused, a.Unknown)
	}
	raw := rawBits(mode)
	owner := int(now.Uid) == a.UID || unix.Fchown(fd, a.UID, -1) == nil
	group := int(now.Gid) == a.GID || unix.Fchown(fd, -1, a.GID) == nil
	if !owner {
		refused = append(refused, "its owner was "+account("user", a.UID))
	}
	if !group { // the permissions of the old group must not apply to another group
		refused = append(refused, "its group was "+account("group", a.GID)+", so the new group has only the permissions of others")
		raw &^= (^raw & 0o007) << 3
	}
	if bits := raw & (unix.S_ISUID | unix.S_ISGID); bits != 0 && (!owner || !group) { // with setuid or setgid, the program would run as another user or group
		refused = append(refused, "its mode had setuid or setgid")
		raw &^= unix.S_ISUID | unix.S_ISGID
	}
	refused = append(refused, a.extend(fd, group)...)
	if err := unix.Fchmod(fd, raw); err != nil { // the mode must be set last, as in applyAttributes
		refused = append(refused, fmt.Sprintf("its mode was %04o (%v)", raw, err))
	}
	return refused, nil
}

// unmapped is the id that the kernel reports for users and groups that the user namespace does not map.
const unmapped = 65534

// account returns the name of a user or group for messages.
func account(what string, id int) string {
	if id == unmapped {
		return "another " + what
	}
	return fmt.Sprintf("the %s %d", what, id)
}

// extend sets the extended attributes of a new file. It removes the attributes that the file inherited from its
// directory.
func (a *Attributes) extend(fd int, group bool) (refused []string) {
	have, err := attributes(fd)
	if err != nil {
		return []string{fmt.Sprintf("its extended attributes could not be compared (%v)", cause(err))}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := a.Extended[name]; !ok && a.Unknown == "" {
			if err := unix.Fremovexattr(fd, name); err != nil {
				refused = append(refused, fmt.Sprintf("the new attribute %s could not be removed (%v)", name, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Extended)) {
		value := a.Extended[name]
		if was, ok := have[name]; ok && string(was) == string(value) {
			continue
		}
		if name == accessList && !group {
			refused = append(refused, "its access control list had an entry for its group")
			continue
		}
		if err := unix.Fsetxattr(fd, name, value, 0); err != nil {
			refused = append(refused, fmt.Sprintf("it had the attribute %s (%v)", name, err))
		}
	}
	return refused
}

// accessList is the extended attribute that contains a file's access control list.
const accessList = "system.posix_acl_access"
