package router

import "slices"

// reserved lists the words that cannot be the first word of a simple command.
var reserved = []string{
	"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then", "time", "until", "while",
	"declare", "export", "let", "local", "nameref", "readonly", "typeset",
}

// plain splits a command that consists only of plain words and white space. Most commands have this form. The shell
// parser returns the same result but takes three times as long.
func plain(command string) (*simple, bool) {
	s := new(simple)
	start := -1
	for i := 0; i <= len(command); i++ {
		switch {
		case i == len(command) || command[i] == ' ':
			if start >= 0 {
				text := command[start:i]
				s.words = append(s.words, word{text: text, bare: text, offset: start, end: i})
				start = -1
			}
		case !plainByte[command[i]]:
			return nil, false
		case start < 0:
			start = i
		}
	}
	if len(s.words) == 0 || slices.Contains(reserved, s.words[0].text) {
		return nil, false
	}
	for i := range len(s.words[0].text) {
		if s.words[0].text[i] == '=' {
			return nil, false // the word is an assignment
		}
	}
	return s, true
}

// plainByte is the set of bytes without a special meaning in a shell.
var plainByte = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for _, c := range []byte("_./:=,@%+-") {
		set[c] = true
	}
	return set
}()
