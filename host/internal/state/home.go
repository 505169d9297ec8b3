package state

import (
	"os"
	"path/filepath"
)

// OutputDir is the name of a subdirectory of each plugin's directory. All tools can read the files in it.
const OutputDir = "output"

// Dir returns the absolute path of the state directory. It is the first non-empty choice, or else the user's directory.
// The user's directory is $XDG_STATE_HOME/toolhost, by default ~/.local/state/toolhost. Dir does not create the
// directory.
func Dir(choices ...string) (string, error) {
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

// Home locates the directories below a host's state directory.
type Home struct {
	// Root is the state directory, with symbolic links resolved. It is empty for a host that keeps no state.
	Root string
	// Runtime returns a directory that exists until the host is closed. Some directories use it if Root is empty.
	Runtime func() (string, error)
}

// Plugin returns a plugin's own directory. It returns "" if the host keeps no state.
func (h Home) Plugin(name string) string {
	if h.Root == "" {
		return ""
	}
	return filepath.Join(h.Root, "plugins", name)
}

// Output returns the directory for a plugin's files that all tools can read, such as output that was too long to show.
// It returns "" if the host keeps no state.
func (h Home) Output(plugin string) string {
	dir := h.Plugin(plugin)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, OutputDir)
}

// Control returns the directory with the sockets of running hosts. It returns "" if the host keeps no state.
func (h Home) Control() string {
	if h.Root == "" {
		return ""
	}
	return filepath.Join(h.Root, "control")
}

// Commands returns the directory with the programs that commands use to call tools.
func (h Home) Commands() (string, error) { return h.below("commands") }

// Pinned returns the directory for copies of pinned binaries.
func (h Home) Pinned() (string, error) { return h.below("pinned") }

func (h Home) below(name string) (string, error) {
	dir := h.Root
	if dir == "" {
		var err error
		if dir, err = h.Runtime(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, name), nil
}
