package policy

import (
	"slices"
	"strings"

	"toolhost.dev/shellscript"
)

// token is an element of a pattern: a character or one of the negative constants below.
type token rune

const (
	oneChar  token = -1 - iota // any character except a slash
	segment                    // any text without a slash
	anything                   // any text
)

// maxOverlap limits the size of the comparison of two patterns.
const maxOverlap = 1 << 20

// overlap reports whether a path can match both a glob and a text with unknown parts. If the argument "pattern" is
// true, the text can contain shell wildcards. The result can be true by mistake, but false is always correct.
func overlap(glob, text string, pattern bool) bool {
	a, b := globTokens(glob), textTokens(text, pattern)
	if len(a)*len(b) > maxOverlap {
		return true
	}
	// reach[j] reports whether some text matches both the first tokens of a, up to the current one, and b[:j].
	reach := make([]bool, len(b)+1)
	reach[0] = true
	skip(reach, b)
	for _, x := range a {
		next := make([]bool, len(b)+1)
		for j := range reach {
			if !reach[j] {
				continue
			}
			if x == segment || x == anything {
				next[j] = true
			}
			if j < len(b) && (b[j] == segment || b[j] == anything) && meets(x, b[j]) {
				next[j] = true // the token of b matches more characters
			}
			if j < len(b) && meets(x, b[j]) {
				next[j+1] = true
			}
		}
		if x == segment || x == anything {
			for j := range b {
				if next[j] && meets(x, b[j]) {
					next[j+1] = true
				}
			}
		}
		skip(next, b)
		reach = next
	}
	return reach[len(b)]
}

// skip marks the positions that can be reached because tokens of b can match the empty text.
func skip(reach []bool, b []token) {
	for j, t := range b {
		if reach[j] && (t == segment || t == anything) {
			reach[j+1] = true
		}
	}
}

// meets reports whether two tokens can match the same character.
func meets(x, y token) bool {
	if x == anything || y == anything {
		return true
	}
	if x >= 0 && y >= 0 {
		return x == y
	}
	return x != '/' && y != '/'
}

// globTokens converts a glob to tokens. A character class becomes any character, and alternatives become any text.
func globTokens(glob string) (out []token) {
	runes := []rune(glob)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\\' && i+1 < len(runes):
			i++
			out = append(out, token(runes[i]))
		case r == '*' && i+1 < len(runes) && runes[i+1] == '*':
			for i+1 < len(runes) && runes[i+1] == '*' {
				i++
			}
			if i+1 < len(runes) && runes[i+1] == '/' {
				i++ // ** can match no directory
			}
			if n := len(out); n > 0 && out[n-1] == '/' && i+1 >= len(runes) {
				out = out[:n-1] // a/** also matches a
			}
			out = append(out, anything)
		case r == '*':
			out = append(out, segment)
		case r == '?':
			out = append(out, oneChar)
		case r == '[' || r == '{':
			end := map[rune]rune{'[': ']', '{': '}'}[r]
			for i+1 < len(runes) && runes[i] != end {
				i++
			}
			out = append(out, anything)
		default:
			out = append(out, token(r))
		}
	}
	return out
}

// textTokens converts a path with unknown parts to tokens.
func textTokens(text string, pattern bool) (out []token) {
	for _, r := range text {
		switch {
		case string(r) == shellscript.Unknown:
			out = append(out, anything)
		case pattern && r == '*':
			out = append(out, segment)
		case pattern && r == '?':
			out = append(out, oneChar)
		case pattern && strings.ContainsRune("[]", r):
			out = append(out, anything)
		default:
			out = append(out, token(r))
		}
	}
	return out
}

// inWorkspace reports whether all paths in the command of a part are in the workspace or temporary. Only then do
// branches and previews hold back what the command removes. A sandbox can let commands write in further directories. An
// unknown path counts as outside, unless the program is judged again when all paths are known.
func (p *part) inWorkspace(req *Request) bool {
	c := p.command
	if c == nil {
		c = p.removal
	}
	if c == nil || c.Dir == "" || c.GitDir || req.gitDir || req.workTree != "" {
		return false
	}
	f := &facts{req: req, c: c}
	outside := func(path string) bool {
		_, temporary := f.ephemeral(path)
		return !temporary && !within(path, req.Workspace)
	}
	if outside(req.files().follow(c.Dir)) {
		return false
	}
	return !slices.ContainsFunc(c.Words[1:], func(w shellscript.Word) bool {
		return slices.ContainsFunc(candidates(w.Text), func(path string) bool {
			if strings.Contains(path, shellscript.Unknown) {
				return !p.gated
			}
			return outside(f.resolve(path)) || outside(req.files().follow(f.resolve(path)))
		})
	})
}
