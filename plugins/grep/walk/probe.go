package walk

import (
	"os"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
)

// Probe is a directory that is open for looking up many of its entries. It avoids the cost of an os.File.
type Probe struct {
	fd   int
	file *os.File // if nil, Close closes fd; otherwise Close closes file
}

// OpenProbe opens a directory below an open directory. It follows the rules of [OpenDir].
func OpenProbe(start *os.File, rel string) (Probe, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	fd, err := openAtOnce(start, rel, flags)
	if err == nil || isAnswer(err) {
		return Probe{fd: fd}, err
	}
	f, err := openStepwise(start, rel, flags)
	if err != nil {
		return Probe{}, err
	}
	return Probe{fd: int(f.Fd()), file: f}, nil
}

// Stamp returns the stamp of the directory.
func (p Probe) Stamp() (freshness.Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(p.fd, &st)
	return freshness.StampOf(&st), err
}

// StampAt returns the stamp of an entry. It does not follow a symbolic link.
func (p Probe) StampAt(name string) (freshness.Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstatat(p.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return freshness.StampOf(&st), err
}

// Close closes the directory.
func (p Probe) Close() {
	if p.file != nil {
		_ = p.file.Close()
	} else {
		_ = unix.Close(p.fd)
	}
}
