package cli

import (
	"strings"
	"testing"
)

// TestArguments checks that an error about the number of arguments names what to write, for all commands.
func TestArguments(t *testing.T) {
	refused := 0
	for _, c := range allCommands(newRoot(Stdio{})) {
		for _, args := range [][]string{nil, strings.Fields("a b c d e f g")} {
			if c.Args == nil || c.HasSubCommands() {
				continue
			}
			err := c.Args(c, args)
			if err == nil {
				continue
			}
			refused++
			if text := err.Error(); !strings.Contains(text, c.CommandPath()) || strings.Contains(text, "arg(s)") || strings.Contains(text, "unknown command") {
				t.Errorf("%s %q: %s", c.CommandPath(), args, text)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d refusals", refused)
	}
}

// TestHiddenCommands lists the commands that have no manual page. TestCloneCommandsAreComplete of the program reads
// these pages, and must know the other commands.
func TestHiddenCommands(t *testing.T) {
	known := map[string]bool{"toolhost reference": true, "toolhost tools forget": true}
	for _, c := range allCommands(newRoot(Stdio{})) {
		if c.Hidden && !known[c.CommandPath()] {
			t.Errorf("%s is hidden: add it here and to TestCloneCommandsAreComplete, or show it", c.CommandPath())
		}
	}
}

// TestSummaries checks that the summary of each command begins with a capital letter, has at most eight words and no
// full stop. Lists of commands show the summaries, and details belong to the long description.
func TestSummaries(t *testing.T) {
	for _, c := range allCommands(newRoot(Stdio{})) {
		words := strings.Fields(c.Short)
		if len(words) == 0 || len(words) > 8 || strings.ToUpper(c.Short[:1]) != c.Short[:1] || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the summary %q has %d words", c.CommandPath(), c.Short, len(words))
		}
	}
}
