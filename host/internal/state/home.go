package state

import (
	"os"
	"path/filepath"
)

// OutputDir is the name of the directory, in a plugin's own directory, whose files all tools may read.
const OutputDir = "output"

// Dir returns the state directory: the first non-empty choice, made absolute, or else the user's
// ($XDG_STATE_HOME/toolhost, by default ~/.local/state/toolhost). It does not create the directory.
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

// Home names the directories below a host's state directory.
type Home struct {
	// Root is the state directory without symbolic links. It is empty if nothing is kept after the run.
	Root string
	// Runtime returns the directory that lasts as long as the host. Nothing else stands in for Root.
	Runtime func() (string, error)
}

// Plugin returns a plugin's own directory, or "" if nothing is kept.
func (h Home) Plugin(name string) string {
	if h.Root == "" {
		return ""
	}
	return filepath.Join(h.Root, "plugins", name)
}

// Output returns the directory where a plugin puts what all tools may read, such as an output that was too
// long to show. It returns "" if nothing is kept.
func (h Home) Output(plugin string) string {
	dir := h.Plugin(plugin)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, OutputDir)
}

// Control returns the directory with the sockets of running hosts, or "" if nothing is kept.
func (h Home) Control() string {
	if h.Root == "" {
		return ""
	}
	return filepath.Join(h.Root, "control")
}

// Commands returns the directory of the programs by which commands call tools.
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
