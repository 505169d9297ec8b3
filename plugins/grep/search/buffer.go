package search

import (
	"bytes"
	"errors"
	"io"
)

// binary is the treatment of NUL bytes in a file.
type binary uint8

const (
	quit    binary = iota // end the search at the first NUL byte
	convert               // replace NUL bytes by line breaks
	notice                // search files with NUL bytes, but omit their matches
	asText                // treat NUL bytes like other bytes
)

// capacity is the size of a buffer in bytes. It equals ripgrep's buffer size, so that both programs
// search the same part of a file with a NUL byte.
const capacity = 64 << 10

// lineBuffer reads a file in chunks of whole lines.
type lineBuffer struct {
	src    io.Reader
	binary binary
	buf    []byte
	// buf[start:lines] contains the current lines. buf[lines:end] contains the beginning of the next line.
	start, lines, end int
	offset            int64 // offset of buf[0] in the file
	nul               int64 // offset of the first NUL byte in the file; -1 if none is found
}

func (b *lineBuffer) reset(src io.Reader, mode binary) {
	buf := b.buf
	if cap(buf) != capacity { // a buffer that was enlarged for a long line is not reused
		buf = make([]byte, capacity)
	}
	*b = lineBuffer{src: src, binary: mode, buf: buf, nul: -1}
}

// bytes returns the lines in the buffer that are not yet consumed.
func (b *lineBuffer) bytes() []byte { return b.buf[b.start:b.lines] }

func (b *lineBuffer) consume(n int) { b.start += n }

// fill reads more lines and keeps the lines that were not consumed. It reports whether the buffer contains a line.
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

// checkBinary looks for NUL bytes in the bytes that were read last. It returns true if the search must end at a NUL
// byte.
func (b *lineBuffer) checkBinary(from int) bool {
	if b.binary == asText {
		return false
	}
	fresh := b.buf[from:b.end]
	if b.binary == notice { // after the first buffer, only returned lines are checked for NUL bytes
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

// grow enlarges the buffer when it is full.
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
