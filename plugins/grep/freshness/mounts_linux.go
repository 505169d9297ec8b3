package freshness

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
)

// Mounts detects mounts and unmounts above and below a directory. It is not safe for concurrent use.
type Mounts struct {
	fd   int // descriptor of mountInfo; poll returns POLLPRI for it after a mount or unmount
	root string
	here string // the last known mounts above and below the root
}

const mountInfo = "/proc/self/mountinfo"

// NewMounts starts to monitor the mounts above and below a directory.
func NewMounts(root string) (*Mounts, error) {
	fd, err := unix.Open(mountInfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("freshness: changes of the mounts cannot be monitored: %w", err)
	}
	m := &Mounts{fd: fd, root: root}
	if m.here, err = m.concerning(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close stops the monitoring.
func (m *Mounts) Close() error { return unix.Close(m.fd) }

// Changed reports whether a mount above or below the root was added or removed since the last call. This check is
// necessary because a mount hides the files below its mount point without an event.
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

// concerning lists the mounts above and below the root. It describes each mount by its ID, device, source and mount
// point.
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
		if at := unescape.Replace(f[4]); (tool.Root{Path: at}).Contains(m.root) ||
			(tool.Root{Path: m.root}).Contains(at) {
			fmt.Fprintln(&out, f[0], f[2], f[3], at)
		}
	}
	return out.String(), nil
}

// unescape decodes the escapes in mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
