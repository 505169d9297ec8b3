package terminal

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/reeflective/readline"
	"github.com/reeflective/readline/inputrc"
)

// ctrlC is the key of [errInterrupted].
const ctrlC = 3

// errInterrupted is the error of read if the user canceled the line with Ctrl-C.
var errInterrupted = errors.New("interrupted")

// These are the colors of the prompt.
const (
	colorPrompt = "\x1b[36m"
	colorTool   = "\x1b[32m"
	colorError  = "\x1b[31m"
	colorReset  = "\x1b[0m"
)

// interruptAction is the name of the editor's action for Ctrl-C. It replaces the library's own action, which ignores
// Ctrl-C if other keys follow at once.
const interruptAction = "toolhost-interrupt"

// editor reads commands from the keyboard. It edits a multi-line command as a whole.
type editor struct {
	shell  *readline.Shell
	keys   *keyboard
	prompt string
	fed    []rune // keys that the editor got from the keyboard's store
	// accepted is called when a command is complete, before Ctrl-C becomes a signal.
	accepted func()
}

// newEditor returns an editor with a history. The last entry of the history is the newest entry. The function
// "complete" returns the candidates for the last word of a text, and "accepted" is the field of the editor.
func newEditor(keys *keyboard, history []string, complete func(before string) []candidate, accepted func()) *editor {
	e := &editor{shell: readline.NewShell(inputrc.WithApp("toolhost")), keys: keys, accepted: accepted}
	sh := e.shell
	for name, value := range map[string]any{
		"cursor-position-probe":        false,         // the prompt must not wait for a terminal that does not reply
		"menu-complete-display-prefix": true,          // Tab inserts the common prefix of the candidates and lists them
		"multiline-column":             keys.colorful, // the library would color this column even without colors
		"autopairs":                    false,
		"convert-meta":                 false, // treat input bytes as UTF-8
		"input-meta":                   true,
		"output-meta":                  true,
		"enable-bracketed-paste":       true,
		"echo-control-characters":      false,
	} {
		_ = sh.Config.Set(name, value) // ignore the error: the values have the types of their options
	}
	sh.Keymap.Register(map[string]func(){interruptAction: func() {
		sh.Display.AcceptLine()
		sh.History.Accept(false, false, errInterrupted)
	}})
	for _, keymap := range sh.Config.Binds {
		for sequence, bind := range keymap {
			if strings.Contains(bind.Action, "edit-command") || strings.Contains(bind.Action, "edit-and-execute") {
				delete(keymap, sequence) // remove the key, because it would start a program outside of the sandbox
			}
		}
		keymap[inputrc.Unescape(`\C-C`)] = inputrc.Bind{Action: interruptAction}
	}
	sh.Prompt.Primary(func() string { return e.keys.colored(colorPrompt, e.prompt) })
	sh.Prompt.Secondary(func() string { return "… " })
	sh.AcceptMultiline = func(line []rune) bool {
		if incomplete(string(line)) {
			return false
		}
		e.accepted()
		return true
	}
	past := readline.NewInMemoryHistory()
	for _, command := range history {
		_, _ = past.Write(command) // ignore the error: writing to a list in memory cannot fail
	}
	sh.History.Add("history", past)
	sh.Completer = func(line []rune, cursor int) readline.Completions {
		before := string(line[:cursor])
		var values []readline.Completion
		for _, c := range complete(before) {
			values = append(values, readline.Completion{
				Value: c.text, Display: strings.TrimSpace(c.text), Description: c.about,
			})
		}
		out := readline.CompleteRaw(values)
		_, out.PREFIX = lastWord(before)
		return out
	}
	return e
}

// highlight colors the first word of a command if it names a tool.
func (e *editor) highlight(isTool func(word string) bool) {
	if !e.keys.colorful {
		return
	}
	e.shell.SyntaxHighlighter = func(line []rune) string {
		text := string(line)
		word, _, _ := strings.Cut(text, " ")
		if !isTool(word) {
			return text
		}
		return e.keys.colored(colorTool, word) + text[len(word):]
	}
}

// read reads one command. The error is [errInterrupted] after Ctrl-C, and io.EOF after Ctrl-D in an empty line. If ctx
// is canceled, read returns at once, and the editor must not be used any more.
func (e *editor) read(ctx context.Context, prompt string) (string, error) {
	e.prompt = prompt
	e.fed = []rune(string(e.keys.takeAhead()))
	e.shell.Keys.Feed(false, e.fed...)
	type line struct {
		text string
		err  error
	}
	done := make(chan line, 1)
	go func() {
		text, err := e.shell.Readline()
		done <- line{text, err}
	}()
	select {
	case l := <-done:
		return l.text, l.err
	case <-ctx.Done():
		e.keys.abandon()
		return "", ctx.Err()
	}
}

// forget discards the keys that were typed ahead.
func (e *editor) forget() {
	e.rest()
	e.keys.takeAhead()
}

// interrupted stores all keys that followed the last command for the next one. It reports whether Ctrl-C was among
// them, which was not a signal yet because the editor still read the keys. As for a signal, earlier keys are lost.
func (e *editor) interrupted(ctx context.Context) bool {
	e.keys.ahead = append(e.rest(), e.keys.ahead...)
	_ = e.keys.store(ctx, 0) // ignore the error: the next read reports a closed terminal
	i := bytes.LastIndexByte(e.keys.ahead, ctrlC)
	e.keys.ahead = e.keys.ahead[i+1:]
	return i >= 0
}

// rest takes back the keys that the editor has not used. The library returns only one byte of each character that it
// was fed. Fed characters are the last ones.
func (e *editor) rest() []byte {
	var out []byte
	for {
		key, empty := e.shell.Keys.Pop()
		if empty {
			break
		}
		out = append(out, key)
	}
	for n := min(len(e.fed), len(out)); n > 0; n-- {
		typed, last := out[:len(out)-n], e.fed[len(e.fed)-n:]
		same := true
		for i, r := range last {
			same = same && byte(r) == out[len(typed)+i]
		}
		if same {
			return append(typed, string(last)...)
		}
	}
	return out
}
