// Package screen prints text that is safe for a terminal. [New] returns a writer for text from tools, files and models,
// and [Printable] makes one line safe.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// New returns a writer for text from tools, files or models. If w is a terminal, the writer replaces control
// characters except line feeds, tabs and color sequences, in the same way as [Printable]. Otherwise it writes all bytes
// unchanged. A text can be split between several writes. The caller must call Flush at the end.
func New(w io.Writer) *Writer { return &Writer{w: w, raw: !IsTerminal(w)} }

// IsTerminal reports whether a reader or a writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width returns the width of a terminal in columns. It returns 0 if the stream is not a terminal.
func Width(stream io.Writer) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Writer is the result of [New]. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	raw     bool
	held    []byte // incomplete character or color sequence at the end of the last write
	colored bool   // whether the terminal still shows colors
}

// maxColor is the maximum length in bytes of a sequence that sets colors.
const maxColor = 64

// Write implements [io.Writer].
func (s *Writer) Write(p []byte) (int, error) {
	if s.raw {
		return s.w.Write(p)
	}
	s.held = append(s.held, p...)
	out, rest := s.shown(s.held, false)
	s.held = append(s.held[:0], rest...)
	if _, err := io.WriteString(s.w, out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes an incomplete character or sequence and resets the colors.
func (s *Writer) Flush() error {
	if s.raw {
		return nil
	}
	out, _ := s.shown(s.held, true)
	s.held = nil
	if s.colored {
		out += "\x1b[0m"
		s.colored = false
	}
	_, err := io.WriteString(s.w, out)
	return err
}

// shown returns a text for the terminal, without control characters. If end is false, more bytes can follow. In this
// case, rest contains the last bytes if their meaning depends on the following bytes.
func (s *Writer) shown(text []byte, end bool) (out string, rest []byte) {
	var b strings.Builder
	for len(text) > 0 {
		n, complete := color(text)
		switch {
		case !complete && !end, text[0] == '\r' && len(text) == 1 && !end, !utf8.FullRune(text) && !end:
			return b.String(), text
		case n > 0:
			b.Write(text[:n])
			s.colored = !isReset(string(text[2 : n-1]))
			text = text[n:]
			continue
		case text[0] == '\r' && len(text) > 1 && text[1] == '\n':
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\u200c' || r == '\u200d': // invisible characters that join other characters, for example in emoji
			b.WriteRune(r)
		default:
			writeVisible(&b, r)
		}
		text = text[size:]
	}
	return b.String(), nil
}

// color returns the length of the color sequence (SGR) at the start of the text. If the text starts with no color
// sequence, color returns zero. If the result depends on bytes that follow later, complete is false.
func color(text []byte) (n int, complete bool) {
	if text[0] != 0x1b {
		return 0, true
	}
	if len(text) > 1 && text[1] != '[' {
		return 0, true
	}
	for i := 2; i < len(text) && i < maxColor; i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1, true
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0, true
		}
	}
	return 0, len(text) >= maxColor
}

// isReset reports whether the parameters of a color sequence only reset the colors.
func isReset(params string) bool { return strings.Trim(params, "0;") == "" }

// writeVisible writes a character. It replaces control characters, invisible characters, and characters that change the
// text direction, by a visible form.
func writeVisible(b *strings.Builder, r rune) {
	switch {
	case r == '\t':
		b.WriteByte('\t')
	case r < 0x20:
		b.WriteRune('\u2400' + r) // a visible symbol such as ␛
	case r == 0x7f:
		b.WriteRune('\u2421')
	case r < 0xa0 && r >= 0x80, unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
		if r > 0xffff {
			fmt.Fprintf(b, `\U%08x`, r)
		} else {
			fmt.Fprintf(b, `\u%04x`, r)
		}
	default:
		b.WriteRune(r)
	}
}
