package excerpt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

const (
	scanChunk = 256 << 10
	// keepOfLine is the maximum number of bytes that are kept of a line.
	keepOfLine = (MaxLineChars + 1) * utf8.UTFMax
)

// Scan returns the excerpt that w selects from a text. It reads the text in chunks with constant memory. After the
// window, it reads at most countAhead more bytes to count the remaining lines. Excerpt.Counted reports whether Scan
// reached the end of the text. If convert is not nil, Scan applies it to the selected lines.
func Scan(ctx context.Context, text io.Reader, w Window, countAhead int64,
	convert func([]byte) ([]byte, error)) (Excerpt, error) {
	s := scanner{region: region{first: max(w.Start, 1), hidden: make(map[int]int64)}, line: 1}
	s.until = s.region.first + MaxLines
	if w.Lines > 0 {
		s.until = min(s.until, s.region.first+w.Lines)
	}
	buf := make([]byte, scanChunk)
	counted, ahead := false, int64(0)
	for !counted && ahead <= countAhead {
		if err := ctx.Err(); err != nil {
			return Excerpt{}, context.Cause(ctx)
		}
		n, err := text.Read(buf)
		if s.done() {
			ahead += int64(n)
		}
		s.take(buf[:n])
		if errors.Is(err, io.EOF) {
			counted = true
		} else if err != nil {
			return Excerpt{}, err
		}
	}
	return s.excerpt(w, counted, convert)
}

// scanner collects the lines of a region while it reads a text.
type scanner struct {
	region  region
	until   int  // number of the first line after the window
	line    int  // number of the current line
	inLine  int  // number of stored bytes of the current line
	started bool // true if the current line has at least one byte; an empty last line does not count as a line
	least   int  // lower limit for the size in bytes that the stored lines have in the excerpt
}

func (s *scanner) done() bool { return s.least > MaxBytes || s.line >= s.until }

func (s *scanner) take(chunk []byte) {
	for len(chunk) > 0 {
		if s.done() || s.line < s.region.first {
			if chunk = s.skip(chunk); len(chunk) == 0 {
				return
			}
		}
		i := bytes.IndexByte(chunk, '\n')
		if i < 0 {
			s.keep(chunk)
			s.started = true
			return
		}
		s.keep(chunk[:i])
		s.endLine()
		chunk = chunk[i+1:]
	}
}

// skip counts those lines of a chunk that are before or after the window. If the window begins in the chunk, skip
// returns the part of the chunk from the beginning of the window.
func (s *scanner) skip(chunk []byte) []byte {
	for !s.done() && s.line < s.region.first {
		i := bytes.IndexByte(chunk, '\n')
		if i < 0 {
			s.started = s.started || len(chunk) > 0
			return nil
		}
		chunk = chunk[i+1:]
		s.line++
		s.started = false
	}
	if !s.done() {
		return chunk
	}
	s.line += bytes.Count(chunk, []byte{'\n'})
	if len(chunk) > 0 {
		s.started = chunk[len(chunk)-1] != '\n'
	}
	return nil
}

// keep stores bytes of the current line. It drops bytes beyond keepOfLine.
func (s *scanner) keep(part []byte) {
	room := max(keepOfLine-s.inLine, 0)
	if len(part) > room {
		s.region.hidden[s.line] += int64(len(part) - room)
		part = part[:room]
	}
	s.region.data = append(s.region.data, part...)
	s.inLine += len(part)
}

func (s *scanner) endLine() {
	if s.region.hidden[s.line] > 0 {
		s.trimRune()
	}
	s.region.data = append(s.region.data, '\n')
	s.least += min(s.inLine, MaxLineChars) + 1
	s.line++
	s.inLine, s.started = 0, false
}

// trimRune removes an incomplete character from the end of the current line.
func (s *scanner) trimRune() {
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(s.region.data); r != utf8.RuneError || size > 1 {
			return
		}
		s.region.data = s.region.data[:len(s.region.data)-1]
		s.region.hidden[s.line]++
	}
}

func (s *scanner) excerpt(w Window, counted bool, convert func([]byte) ([]byte, error)) (Excerpt, error) {
	total := s.line - 1
	if s.started {
		total++
		if s.region.hidden[s.line] > 0 {
			s.trimRune()
		}
	}
	if total < s.region.first {
		return Excerpt{Total: total, Counted: counted}, nil
	}
	if convert != nil {
		data, err := convert(s.region.data)
		if err != nil {
			return Excerpt{}, err
		}
		s.region.data = data
	}
	e := s.region.render(w, total) // enough lines are kept to reach every limit of the excerpt
	e.Total, e.Counted = total, counted
	return e, nil
}

// Count reads a text to its end and returns the number of lines.
func Count(ctx context.Context, text io.Reader) (int, error) {
	buf := make([]byte, scanChunk)
	lines, last := 0, byte('\n')
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := text.Read(buf)
		part := buf[:n]
		if lines += bytes.Count(part, []byte{'\n'}); len(part) > 0 {
			last = part[len(part)-1]
		}
		switch {
		case errors.Is(err, io.EOF) && last != '\n':
			return lines + 1, nil
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return 0, err
		}
	}
}
