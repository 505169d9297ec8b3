package sandbox

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/sandbox/cgroup"
	"toolhost.dev/sandbox/confine"
)

// Profile describes the permissions of a plugin in addition to the roots of its calls.
type Profile struct {
	// WriteRoots permits writing in the writable roots.
	WriteRoots bool `json:"write_roots"`
	// NoRoots forbids any access to the roots.
	NoRoots bool `json:"no_roots,omitempty"`
	// StartProcesses permits executing the system's programs and the programs in the roots.
	StartProcesses bool `json:"exec"`
	Network        bool `json:"network"`
	// Hosts lists the hosts that the plugin can reach through a proxy if Network is false. See package hostlist.
	Hosts []string `json:"hosts,omitempty"`
	// Read and Write list readable and writable paths outside the roots.
	Read []string `json:"read,omitempty"`
	// Run lists executable programs besides the system's programs and the programs in the roots.
	Run   []string `json:"run,omitempty"`
	Write []string `json:"write,omitempty"`
	// WriteGit permits writing the hooks and settings of git. This is dangerous, because git executes programs that
	// these files name.
	WriteGit bool `json:"write_git,omitempty"`
	// DeniedPaths reports whether the configuration's permissions deny paths in the roots.
	DeniedPaths bool           `json:"denied_paths,omitempty"`
	Limits      confine.Limits `json:"limits"`
	// Temporary limits the size of each directory in memory and of a session's temporary files, in bytes. Zero means no
	// limit.
	Temporary uint64 `json:"temporary,omitempty"`
	// Resident limits the total memory of all processes, in bytes. The host measures this memory. Zero means no limit.
	Resident uint64 `json:"resident,omitempty"`
	// Total limits the resources of all processes of the plugin together, with a cgroup.
	Total cgroup.Limits `json:"total,omitzero"`
}

// Place describes the environment in which a plugin runs.
type Place struct {
	// Binary is the path of the plugin's executable.
	Binary string
	// Beside is the directory of a plugin that consists of several files. Empty means that the plugin is one file.
	Beside string
	Roots  []tool.Root
	// Temporary is the temporary directory of a session. A zero Temporary means that the process does not belong to a
	// single session.
	Temporary tool.Root
	// SocketDir and StateDir are the plugin's private directories. Empty means that the plugin has no such directory.
	SocketDir, StateDir string
	// Protect lists files and directories that the plugin must not change, even if they are in a writable root.
	// ProtectNames lists names of files in each writable root that the plugin must not change.
	Protect, ProtectNames []string
	// Run lists the host's programs that the plugin's commands can start.
	Run []string
	// Git lists the files and directories outside of the roots that git reads for the repositories of the roots.
	Git []string
	// Env is the environment of the plugin's process.
	Env []string
	// OnHost returns the path outside of the sandbox for a path in a root. If OnHost is nil, the paths are equal.
	OnHost func(path string) string
	// Mounts contains detached mounts, such as the overlay of a branch, by the paths of roots that they cover. They
	// need the backend [Namespaces]. Starting the command closes the files.
	Mounts map[string]*os.File
	// Listed contains patterns for program names. The plugin can execute only programs with a matching name. Nil means
	// all programs.
	Listed []string
}

// system lists the directories with the system's programs and the files that these programs read. It omits directories
// with keys and password hashes, because root could read these files.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/run/current-system",
}

var systemFiles = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives", "/etc/passwd", "/etc/group",
	"/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/hostname", "/etc/machine-id",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/pki", "/etc/crypto-policies",
	"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/locale.conf", "/etc/default/locale", "/etc/mime.types", "/etc/magic", "/etc/protocols", "/etc/services",
	"/etc/gitconfig", "/etc/inputrc", "/etc/bash.bashrc", "/etc/bash_completion.d", "/etc/profile", "/etc/profile.d", "/etc/environment",
	"/etc/terminfo", "/etc/os-release", "/etc/lsb-release", "/etc/debian_version", "/etc/redhat-release", "/etc/login.defs", "/etc/shells",
	"/etc/java", "/etc/maven", "/etc/npmrc", "/etc/pip.conf", "/etc/python3", "/etc/perl", "/etc/fonts", "/etc/ImageMagick-6", "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d",
	"/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
	"/var/lib/dpkg",
}

// runtimeFiles lists files that the runtimes of programming languages read at every start.
var runtimeFiles = []string{"/proc", "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/mime", "/etc/mime.types",
	"/sys/kernel/mm/transparent_hugepage"}

// homeFiles lists files without secrets in the home directory that programs read.
var homeFiles = []string{".gitconfig", ".config/git", ".gitignore_global", "go/pkg/mod", ".npm-global", ".nvm",
	".cargo/bin", ".rustup", ".pyenv", ".local/bin", ".local/lib", ".sdkman", ".deno/bin", ".bun/bin"}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// caches maps environment variables to cache directories below the plugin's state directory. The user's own caches are
// not used, because a command could place files there that other programs execute later.
var caches = map[string]string{
	"XDG_CACHE_HOME": "cache", "GOCACHE": "cache/go-build", "npm_config_cache": "cache/npm", "TMPDIR": "tmp",
}

// noRetries contains environment variables for programs without a network. With these variables, the programs fail at
// once and do not retry for minutes.
var noRetries = []string{"npm_config_fetch_retries=0", "PIP_RETRIES=1", "CARGO_NET_RETRY=0"}

// Policy returns the policy for a plugin at the given place, and the environment for the plugin's process. It creates
// missing cache directories.
func (p Profile) Policy(at Place, abi int) (confine.Policy, []string, error) {
	out := confine.Policy{
		Run: append([]string{at.Binary}, p.Run...), Devices: devices, StartProcesses: p.StartProcesses,
		Network: p.Network, Limits: p.Limits, ABI: abi,
		Scratch: []string{"/tmp", "/dev/shm", "/var/tmp"}, TmpBytes: p.Temporary,
		// A plugin that writes only in its private directories never has to change metadata.
		FixedMetadata: !p.WriteRoots && !p.StartProcesses && len(p.Write) == 0,
	}
	env, home := at.Env, lookup(at.Env, "HOME")
	p.roots(&out, &at)
	p.share(&out, at.Temporary, at.SocketDir)
	out.Write, out.Read = append(out.Write, p.Write...), append(out.Read, p.Read...)
	out.Direct = at.Git
	if at.Beside != "" {
		out.Read = append(out.Read, at.Beside)
		if p.StartProcesses {
			out.Run = append(out.Run, at.Beside)
		}
	}
	for _, dir := range []string{at.SocketDir, at.StateDir} {
		if dir != "" {
			out.Write = append(out.Write, dir)
		}
	}
	switch kind := binaryKind(at.Binary); {
	case p.StartProcesses:
		out.Run = slices.Concat(out.Run, system, at.Run, searched(lookup(at.Env, "PATH"), home))
		java, _ := filepath.Glob("/etc/java-*") // Debian stores the settings of each Java version in a separate directory
		out.Read = slices.Concat(out.Read, runtimeFiles, systemFiles, java)
		out.Run = append(out.Run, p.Read...) // a program that can be read could be copied to a root and run there
		if filepath.IsAbs(home) {
			for _, f := range homeFiles {
				out.Run = append(out.Run, filepath.Join(home, f))
			}
			out.Scratch = append(out.Scratch, home)
		}
		var err error
		if env, err = withCaches(p.withoutRetries(env), at.StateDir, at.Temporary.Path); err != nil {
			return out, nil, err
		}
	case kind.static:
		out.Read = append(out.Read, runtimeFiles...)
		if p.Network || len(p.Hosts) > 0 { // these files are required to look up names and check certificates
			out.Read = append(out.Read, systemFiles...)
			out.Read = append(out.Read, "/usr/share/ca-certificates")
		}
	default:
		// The binary needs its libraries and its interpreter.
		out.Run = append(out.Run, kind.interpreters...)
		out.Read = slices.Concat(out.Read, runtimeFiles, system, systemFiles)
	}
	for _, path := range slices.Sorted(maps.Keys(at.Mounts)) {
		out.Branches, out.Mounts = append(out.Branches, confine.Branch{Path: path}), append(out.Mounts, at.Mounts[path])
	}
	out.Execute = executable(&at, &out)
	return out, env, nil
}

// withoutRetries adds [noRetries] to env if the profile has no network.
func (p Profile) withoutRetries(env []string) []string {
	if p.Network || len(p.Hosts) > 0 {
		return env
	}
	return append(slices.Clone(env), noRetries...)
}

// roots permits access to the roots of a session.
func (p Profile) roots(out *confine.Policy, at *Place) {
	onHost := at.OnHost
	if onHost == nil {
		onHost = func(path string) string { return path }
	}
	for _, r := range at.Roots {
		switch {
		case p.NoRoots:
		case r.Writable && p.WriteRoots:
			out.Write = append(out.Write, r.Path)
			kept := protectedPaths(r.Path, at, onHost)
			out.Protected, out.Fixed = append(out.Protected, kept...),
				append(out.Fixed, parents(r.Path, kept, onHost)...)
			if !p.WriteGit {
				fixed, protected := gitPaths(r.Path, onHost)
				out.Fixed, out.Protected = append(out.Fixed, fixed...), append(out.Protected, protected...)
			}
		case p.StartProcesses:
			out.Run = append(out.Run, r.Path)
		default:
			out.Read = append(out.Read, r.Path)
		}
	}
	out.Scratch = slices.DeleteFunc(out.Scratch, func(dir string) bool { // a root replaces the empty directory
		return slices.ContainsFunc(at.Roots, func(r tool.Root) bool { return r.Path == dir })
	})
}

// share permits access to the temporary directory of a session. Commands can write to this directory even if the roots
// are read-only.
func (p Profile) share(out *confine.Policy, r tool.Root, socketDir string) {
	write := p.StartProcesses || r.Writable && p.WriteRoots
	switch {
	case r.Path == "":
	case r.Path != r.Source:
		out.Shared, out.SharedReadOnly = r.Source, !write
		// Each process has a socket directory with another name. Its mount point would remain in the session's
		// directory, so create the directory in memory.
		if dir := filepath.Dir(socketDir); dir != r.Path && r.Contains(dir) {
			out.Scratch = append(out.Scratch, dir)
		}
	case write:
		out.Write = append(out.Write, r.Path)
	default:
		out.Read = append(out.Read, r.Path)
	}
}

// withCaches sets environment variables in env, so that programs store caches and temporary files below dir. It keeps
// cache variables that env already contains, except XDG_CACHE_HOME and TMPDIR, which it always replaces. If tmp is not
// empty, temporary files are stored in tmp instead.
func withCaches(env []string, dir, tmp string) ([]string, error) {
	if dir == "" {
		return env, nil
	}
	own, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer own.Close() //nolint:errcheck // only creates directories
	for name, below := range caches {
		path := filepath.Join(dir, below)
		if name == "TMPDIR" && tmp != "" {
			path = tmp
			// MkdirAll of os.Root does not follow a link that leads out of the directory.
		} else if err := own.MkdirAll(below, 0o700); err != nil {
			return nil, err
		}
		if name != "TMPDIR" && lookup(env, name) != "" && name != "XDG_CACHE_HOME" {
			continue
		}
		env = append(slices.DeleteFunc(slices.Clone(env),
			func(e string) bool { return strings.HasPrefix(e, name+"=") }), name+"="+path)
	}
	return env, nil
}

// searched returns the directories of a PATH. It omits the root directory, the home directory and the
// parents of the home directory, because they contain much more than programs.
func searched(path, home string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		dir = filepath.Clean(dir)
		if !filepath.IsAbs(dir) || dir == "/" || (tool.Root{Path: dir}).Contains(home) {
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
