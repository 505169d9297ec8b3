package roots

import (
	"bufio"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"
)

// The list "system" contains directories of the system. The list "trees" contains directories of the system whose
// subdirectories also belong to the system.
var (
	system = []string{
		"/usr", "/usr/local", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/share", "/usr/include",
		"/var", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/home", "/Users", "/opt", "/run", "/dev", "/System", "/Library", "/Applications", "/private",
	}
	trees = []string{
		"/etc", "/boot", "/proc", "/sys", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin",
		"/usr/lib", "/usr/lib64", "/usr/libexec",
	}
)

// broad returns the reason why tools must not write in a directory, as a noun phrase such as "your home directory". It
// returns "" if tools are allowed to write. The path dir is absolute and without symbolic links. The operator permits
// the directories in allowed. They are compared with dir as files, because two paths can lead to the same directory.
func broad(dir string, allowed []string) string {
	key := known{dir, os.Getenv("HOME")}
	found, ok := reasons.Load(key)
	if !ok {
		found, _ = reasons.LoadOrStore(key, reason(dir))
	}
	why, _ := found.(string)
	if why != "" && slices.ContainsFunc(allowed, func(a string) bool { return same(a, dir) }) {
		return ""
	}
	return why
}

// The map "reasons" caches results for the life of the process, because a host checks the same directories many times.
var reasons sync.Map // keys of type known, values of type string

type known struct{ dir, home string }

func reason(dir string) string {
	if same(dir, "/") {
		return "the root of the file system"
	}
	for _, s := range append(slices.Clone(system), trees...) {
		if same(dir, s) {
			return "a directory of the system"
		}
	}
	for _, t := range trees {
		if target, err := filepath.EvalSymlinks(t); err == nil && (tool.Root{Path: target}).Contains(dir) {
			return "part of the system directory " + t
		}
	}
	own, others := homes()
	for _, h := range own {
		if same(dir, h) {
			return "your home directory"
		}
		for at := filepath.Dir(h); ; at = filepath.Dir(at) {
			if same(dir, at) {
				return "a directory that contains your home directory"
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	for _, h := range others {
		if same(dir, h) {
			return "the home directory of another user"
		}
	}
	if slices.Contains(fileSystemRoots(), dir) {
		return "the root of a mounted file system"
	}
	return ""
}

// same reports whether two paths lead to the same directory.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// homes returns the home directories of the current user and of other users.
func homes() (own, others []string) {
	if h, err := os.UserHomeDir(); err == nil && filepath.IsAbs(h) {
		own = append(own, filepath.Clean(h))
	}
	me := ""
	if u, err := user.Current(); err == nil {
		me = u.Username
		if filepath.IsAbs(u.HomeDir) {
			own = append(own, filepath.Clean(u.HomeDir))
		}
	}
	for _, account := range accounts() {
		if account.name != me && !slices.Contains(own, account.home) {
			others = append(others, account.home)
		}
	}
	return own, others
}

type account struct{ name, home string }

// accounts returns the local accounts with a real home directory.
var accounts = sync.OnceValue(func() (out []account) {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	for s := bufio.NewScanner(f); s.Scan(); {
		parts := strings.Split(s.Text(), ":")
		if len(parts) < 6 || !filepath.IsAbs(parts[5]) || parts[5] == "/" {
			continue
		}
		home := filepath.Clean(parts[5])
		// Skip services, because the data directory of a service can be a legitimate workspace.
		if parts[0] == "root" || strings.HasPrefix(home, "/home/") || strings.HasPrefix(home, "/Users/") {
			out = append(out, account{parts[0], home})
		}
	}
	return out
})

// fileSystemRoots returns the mount points of whole file systems. It omits mounts of a single directory, which
// containers use.
func fileSystemRoots() (out []string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	for s := bufio.NewScanner(f); s.Scan(); {
		// See proc_pid_mountinfo(5). Field four is the mounted directory within its file system. Field five is the
		// mount point.
		if f := strings.Fields(s.Text()); len(f) > 5 && f[3] == "/" {
			out = append(out, unescape.Replace(f[4]))
		}
	}
	return out
}

// unescape decodes the octal escapes in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
