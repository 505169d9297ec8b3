package cli

import "testing"

// TestHiddenCommands lists the commands that have no manual page. TestCloneCommandsAreComplete of the program reads these
// pages, and must know the other commands.
func TestHiddenCommands(t *testing.T) {
	known := map[string]bool{"toolhost reference": true}
	for _, c := range allCommands(newRoot(Stdio{})) {
		if c.Hidden && !known[c.CommandPath()] {
			t.Errorf("%s is hidden: add it here and to TestCloneCommandsAreComplete, or show it", c.CommandPath())
		}
	}
}
