package bash

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"toolhost.dev/plugins/bash/shell"
)

// screenTime is the time between two searches for a program that fills the screen.
const screenTime = 100 * time.Millisecond

// screens has the programs that fill the screen and wait for keys, and what to use instead. Pagers such as less are not
// among them: without a terminal, they only pass on the text.
var screens = map[string]string{
	"vim": edits, "vi": edits, "nvim": edits, "vimdiff": edits, "nano": edits, "pico": edits, "emacs": edits, "micro": edits, "joe": edits,
	"view": "read files with read",
	"top":  "run top -b -n 1, or ps", "htop": "run top -b -n 1, or ps", "btop": "run top -b -n 1, or ps", "watch": "run the command itself, several times if needed",
	"mc": "use list and read", "ncdu": "run du", "tig": "run git log", "lazygit": "run git",
}

const edits = "read files with read, and change them with edit"

// batch are arguments with which these programs need no screen, or end without a key.
var batch = []string{"-e", "-E", "-es", "-Es", "-s", "-S", "-c", "-b", "-bn1", "--headless", "-batch", "--batch", "--script", "--version", "--help", "-h", "-v"}

// mentionsScreen matches scripts that may run such a program. Only for them the tool looks often.
var mentionsScreen = func() *regexp.Regexp {
	var names []string
	for name := range screens {
		names = append(names, name)
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
}()

// fullScreen returns the name of a program that the command runs and that waits for keys at a screen, or "".
func fullScreen(p *shell.Process) string {
	for _, program := range p.Programs() {
		if screens[program[0]] != "" && !slices.ContainsFunc(program[1:], inBatch) {
			return program[0]
		}
	}
	return ""
}

// inBatch reports whether an argument is one with which a program needs no screen.
func inBatch(a string) bool { return slices.Contains(batch, a) || strings.HasPrefix(a, "+") }

// noTerminal matches messages of programs that ended because they need a terminal.
var noTerminal = regexp.MustCompile(`(?i)failed tty get|open terminal failed|error opening terminal|not a (?:tty|terminal)\b|inappropriate ioctl for device|must be run from a terminal`)

// screenAdvice returns what to use instead of a program that fills the screen.
func screenAdvice(name string) string {
	return fmt.Sprintf("%s needs a screen, and commands have none. Instead of it, %s", name, screens[name])
}
