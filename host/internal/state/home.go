package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// OutputDir is the name of the directory with a plugin's output files, inside the plugin's directory. All tools can
// read these files.
const OutputDir = "output"

// ResultsDir is a name in place of a plugin's name. Its output directory has the long results of all plugins, which the
// host writes. No plugin can have the name.
const ResultsDir = "_results"

// FindDir returns the absolute path of the state directory. The directory is the first non-empty choice. Without a
// choice, it is $XDG_STATE_HOME/toolhost or ~/.local/state/toolhost. FindDir does not create the directory.
func FindDir(choices ...string) (string, error) {
	for _, dir := range choices {
		if dir != "" {
			return filepath.Abs(dir)
		}
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolhost"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "toolhost"), nil
}

// Home contains the paths below a host's state directory.
type Home struct {
	// Root is the state directory with resolved symbolic links. Empty means that the host keeps no state.
	Root string
	// Runtime returns a temporary directory, which is removed when the host is closed. It replaces Root for some
	// directories if Root is empty.
	Runtime func() (string, error)
}

// Plugins returns the directory that contains the private directories of all plugins. It returns "" if the host keeps
// no state.
func (h Home) Plugins() string { return h.kept("plugins") }

// Plugin returns the directory of a plugin. It returns "" if the host keeps no state.
func (h Home) Plugin(name string) string { return h.kept("plugins", name) }

// Principals returns the directory that contains the directories of plugins for all owners except the local user. It
// returns "" if the host keeps no state.
func (h Home) Principals() string { return h.kept("principals") }

// PluginOf returns the directory of a plugin for the sessions of an owner. An empty owner means the local user.
// PluginOf returns "" if the host keeps no state.
func (h Home) PluginOf(owner, name string) string {
	if owner == "" || h.Root == "" {
		return h.Plugin(name)
	}
	sum := sha256.Sum256([]byte(owner)) // hash, because an owner can be longer than a file name
	return filepath.Join(h.Principals(), hex.EncodeToString(sum[:16]), name)
}

// Output returns the directory for a plugin's output files, such as long output of commands. All tools that run for the
// same owner can read these files. Output returns "" if the host keeps no state.
func (h Home) Output(owner, plugin string) string {
	dir := h.PluginOf(owner, plugin)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, OutputDir)
}

// Control returns the directory with the sockets of running hosts. It returns "" if the host keeps no state.
func (h Home) Control() string { return h.kept("control") }

// Logs returns the directory with the logs of the plugins. It returns "" if the host keeps no state.
func (h Home) Logs() string { return h.kept("logs") }

// Locks returns the directory with the locks of sessions. It returns "" if the host keeps no state.
func (h Home) Locks() string { return h.kept("locks") }

// Recordings returns the directory with the sockets of recordings. It returns "" if the host keeps no state.
func (h Home) Recordings() string { return h.kept("recordings") }

// Commands returns the directory with the programs through which commands call tools.
func (h Home) Commands() (string, error) { return h.subdirectory("commands") }

// Pinned returns the directory for copies of pinned binaries.
func (h Home) Pinned() (string, error) { return h.subdirectory("pinned") }

// Versions returns the directory for copies of the binaries of plugins with a rollout block.
func (h Home) Versions() (string, error) { return h.subdirectory("versions") }

// Masks returns the directory with the files that replace denied paths for tools.
func (h Home) Masks() (string, error) { return h.subdirectory("masks") }

// Branches returns the directory of the branches. It returns "" if the host keeps no state.
func (h Home) Branches() string { return h.kept("branches") }

// Scratch returns the directory with the temporary directories of sessions.
func (h Home) Scratch() (string, error) { return h.subdirectory("scratch") }

// Quarantine returns the parent directory of the quarantine.
func (h Home) Quarantine() (string, error) { return h.subdirectory("") }

// kept returns a path below the state directory. It returns "" if the host keeps no state.
func (h Home) kept(names ...string) string {
	if h.Root == "" {
		return ""
	}
	return filepath.Join(append([]string{h.Root}, names...)...)
}

func (h Home) subdirectory(name string) (string, error) {
	dir := h.Root
	if dir == "" {
		var err error
		if dir, err = h.Runtime(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, name), nil
}

// CheckOwner returns an error if other users can write to the state directory. It returns nil if the directory does not
// exist.
func CheckOwner(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // it is created for this user only
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	switch mode := st.Mode().Perm(); {
	case int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("the state directory %s belongs to user %d. Use a directory of your own: --state DIR", dir, sys.Uid)
	case mode&0o002 != 0, mode&0o020 != 0 && int(sys.Gid) != os.Getegid():
		return fmt.Errorf("other users can write in the state directory %s (mode %#o). Change that with chmod go-w %[1]s, or use another one: --state DIR", dir, mode)
	}
	return nil
}
