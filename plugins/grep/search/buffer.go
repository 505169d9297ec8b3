package search

import (
	"bytes"
	"errors"
	"io"
)

// binary is the treatment of NUL bytes.
type binary uint8

const (
	quit    binary = iota // end the search before the first buffer that contains one
	convert               // replace them by line breaks
	notice                // search them, but do not show the matches
)

// capacity is the size of a buffer. It decides how much of a file with a NUL byte is searched. It equals that of
// ripgrep.
const capacity = 64 << 10

// lineBuffer reads a file in pieces of whole lines.
type lineBuffer struct {
	src    io.Reader
	binary binary
	buf    []byte
	// buf[start:lines] holds the current lines, and buf[lines:end] the beginning of the next line.
	start, lines, end int
	offset            int64 // of buf[0] in the file
	nul               int64 // offset of the first NUL byte in the file, or -1
}

func (b *lineBuffer) reset(src io.Reader, mode binary) {
	buf := b.buf
	if cap(buf) != capacity { // do not retain a buffer that a long line has enlarged
		buf = make([]byte, capacity)
	}
	*b = lineBuffer{src: src, binary: mode, buf: buf, nul: -1}
}

// bytes returns the current lines. A line remains until it is consumed.
func (b *lineBuffer) bytes() []byte { return b.buf[b.start:b.lines] }

func (b *lineBuffer) consume(n int) { b.start += n }

// fill reads more lines and keeps those not consumed. It reports whether there are any lines.
func (b *lineBuffer) fill() (bool, error) {
	if b.binary == quit && b.nul >= 0 {
		return b.start < b.lines, nil
	}
	n := copy(b.buf, b.buf[b.start:b.end])
	b.offset += int64(b.start)
	b.start, b.lines, b.end = 0, n, n
	for {
		if err := b.grow(); err != nil {
			return false, err
		}
		old := b.end
		for b.end < len(b.buf) {
			n, err := b.src.Read(b.buf[b.end:])
			b.end += n
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return false, err
			}
		}
		if b.end == old {
			b.lines = b.end
			return b.start < b.lines, nil
		}
		if b.checkBinary(old) {
			return b.start < b.end, nil
		}
		if i := bytes.LastIndexByte(b.buf[old:b.end], '\n'); i >= 0 {
			b.lines = old + i + 1
			return true, nil
		}
	}
}

// checkBinary searches the bytes just read for NUL bytes. It reports whether the file ends there.
func (b *lineBuffer) checkBinary(from int) bool {
	fresh := b.buf[from:b.end]
	if b.binary == notice { // after the first buffer only found lines are checked
		fresh = fresh[:max(0, min(len(fresh), capacity-int(min(b.offset, capacity))-from))]
	}
	i := bytes.IndexByte(fresh, 0)
	if i < 0 {
		return false
	}
	if b.nul < 0 {
		b.nul = b.offset + int64(from+i)
	}
	switch b.binary {
	case quit:
		b.end = from + i
		b.lines = b.end
		return true
	case convert:
		for j, c := range fresh[i:] {
			if c == 0 {
				fresh[i+j] = '\n'
			}
		}
	}
	return false
}

// grow enlarges the buffer if it is full.
func (b *lineBuffer) grow() error {
	if b.end < len(b.buf) {
		return nil
	}
	if len(b.buf) >= MaxLineBytes {
		return ErrLongLine
	}
	bigger := make([]byte, min(3*len(b.buf), MaxLineBytes))
	copy(bigger, b.buf[:b.end])
	b.buf = bigger
	return nil
}
