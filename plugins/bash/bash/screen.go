package bash

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"toolhost.dev/plugins/bash/shell"
)

// screenTime is the interval at which the tool checks whether a command runs a full-screen program.
const screenTime = 100 * time.Millisecond

// screens maps each full-screen program to the advice for the model. The map omits pagers such as less, because a pager
// without a terminal only copies its input.
var screens = map[string]string{
	"vim": edits, "vi": edits, "nvim": edits, "vimdiff": edits, "nano": edits, "pico": edits, "emacs": edits, "micro": edits, "joe": edits,
	"view": "read files with read",
	"top":  "run top -b -n 1, or ps", "htop": "run top -b -n 1, or ps", "btop": "run top -b -n 1, or ps", "watch": "run the command itself, several times if needed",
	"mc": "use list and read", "ncdu": "run du", "tig": "run git log", "lazygit": "run git",
}

const edits = "read files with read, and change them with edit"

// This list contains arguments that make a full-screen program run without a screen or exit without a key press.
var batch = []string{"-e", "-E", "-es", "-Es", "-s", "-S", "-c", "-b", "-bn1", "--headless", "-batch", "--batch",
	"--script", "--version", "--help", "-h", "-v"}

// mentionsScreen matches commands that can start a full-screen program. The tool checks the running programs of these
// commands every screenTime. It does not check programs of other commands.
var mentionsScreen = func() *regexp.Regexp {
	var names []string
	for name := range screens {
		names = append(names, name)
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
}()

// fullScreen returns the name of a full-screen program that the command runs. It returns "" if the command runs none.
func fullScreen(p *shell.Process) string {
	for _, program := range p.Programs() {
		if screens[program[0]] != "" && !slices.ContainsFunc(program[1:], inBatch) {
			return program[0]
		}
	}
	return ""
}

// inBatch reports whether an argument makes a full-screen program run without a screen.
func inBatch(a string) bool { return slices.Contains(batch, a) || strings.HasPrefix(a, "+") }

// noTerminal matches error messages of programs that need a terminal.
var noTerminal = regexp.MustCompile(`(?i)failed tty get|open terminal failed|error opening terminal|not a (?:tty|terminal)\b|inappropriate ioctl for device|must be run from a terminal`)

// screenAdvice returns a message that recommends an alternative to a full-screen program.
func screenAdvice(name string) string {
	return fmt.Sprintf("%s needs a screen, and commands have none. Instead of it, %s", name, screens[name])
}
