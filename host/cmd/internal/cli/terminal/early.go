package terminal

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxEarly is the maximum size of the beginning of a stream, in bytes. A result that is cut has more of the beginning.
const maxEarly = 8000

// skipped begins a chunk before which the host skipped output.
const skipped = "\n[… "

// early is the beginning of the output of a running call. It contains only what the result will certainly begin with:
// complete lines of plain text, before anything was skipped. A result has other text in place of the rest, for example
// if it is too long, or if lines overwrite each other.
type early struct {
	lines []byte // passed on
	rests []byte // of an incomplete line
	ended bool
}

// add returns the lines that a chunk completes.
func (e *early) add(chunk []byte) []byte {
	if e.ended || bytes.HasPrefix(chunk, []byte(skipped)) {
		e.ended = true
		return nil
	}
	e.rests = append(e.rests, chunk...)
	before := len(e.lines)
	for !e.ended {
		end := bytes.IndexByte(e.rests, '\n') + 1
		if end == 0 {
			e.ended = len(e.lines)+len(e.rests) > maxEarly
			break
		}
		if e.ended = len(e.lines)+end > maxEarly || !plain(e.rests[:end]); !e.ended {
			e.lines = append(e.lines, e.rests[:end]...)
			e.rests = e.rests[end:]
		}
	}
	return e.lines[before:]
}

// plain reports whether a result has a line as the command wrote it.
func plain(line []byte) bool {
	return utf8.Valid(line) &&
		!bytes.ContainsFunc(line, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// rest returns what remains to be printed of the text of a result.
func (e *early) rest(text string) string {
	rest, _ := strings.CutPrefix(text, string(e.lines))
	return rest
}
