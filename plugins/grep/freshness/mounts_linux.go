package freshness

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
)

// Mounts is notified of what is mounted and unmounted. It is not safe for concurrent use.
type Mounts struct {
	fd   int // tells when something is mounted; Go's own poller must not know of it
	root string
	here string // the mounts that concern the root
}

const mountInfo = "/proc/self/mountinfo"

// NewMounts listens for mounts that concern a directory.
func NewMounts(root string) (*Mounts, error) {
	fd, err := unix.Open(mountInfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("freshness: the mounts cannot be watched: %w", err)
	}
	m := &Mounts{fd: fd, root: root}
	if m.here, err = m.concerning(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close ends that.
func (m *Mounts) Close() error { return unix.Close(m.fd) }

// Changed reports whether something was mounted or unmounted since the last time beneath
// the root or above it: a mount hides what is beneath it, of which no event tells.
func (m *Mounts) Changed() bool {
	fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}} // #nosec G115 -- a descriptor
	n, err := unix.Poll(fds, 0)
	if err != nil || n == 0 || fds[0].Revents&(unix.POLLERR|unix.POLLPRI) == 0 {
		return false
	}
	now, err := m.concerning()
	changed := err != nil || now != m.here
	m.here = now
	return changed
}

// concerning returns the mounts that concern the root: number, device, source and place.
func (m *Mounts) concerning() (string, error) {
	all, err := os.ReadFile(mountInfo)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(all)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := unescape.Replace(f[4]); (tool.Root{Path: at}).Contains(m.root) || (tool.Root{Path: m.root}).Contains(at) {
			fmt.Fprintln(&out, f[0], f[2], f[3], at)
		}
	}
	return out.String(), nil
}

// unescape undoes how mount points are written.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
