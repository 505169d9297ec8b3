package search

import (
	"bytes"
	"errors"
	"io"
)

// binary is what to do about NUL bytes.
type binary uint8

const (
	quit    binary = iota // the file ends before the first buffer that has one
	convert               // they are line breaks
	notice                // they are as they are; what is found with them is not shown
)

// capacity is the size of a buffer. It decides how much of a file with a NUL byte is
// searched, and is ripgrep's.
const capacity = 64 << 10

// lineBuffer gives a file piece by piece, each of whole lines.
type lineBuffer struct {
	src    io.Reader
	binary binary
	buf    []byte
	// buf[start:lines] is what is given; buf[lines:end] is the beginning of a line.
	start, lines, end int
	offset            int64 // of buf[0] in the file
	nul               int64 // where a NUL byte is; below zero: none seen
}

func (b *lineBuffer) reset(src io.Reader, mode binary) {
	buf := b.buf
	if cap(buf) != capacity { // one long line need not cost memory forever
		buf = make([]byte, capacity)
	}
	*b = lineBuffer{src: src, binary: mode, buf: buf, nul: -1}
}

// bytes returns the lines at hand. A line stays until it is consumed.
func (b *lineBuffer) bytes() []byte { return b.buf[b.start:b.lines] }

func (b *lineBuffer) consume(n int) { b.start += n }

// fill adds lines to those that are left. It reports whether there are any.
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

// checkBinary looks for NUL bytes in what was read last, and reports whether the file
// is to end with them.
func (b *lineBuffer) checkBinary(from int) bool {
	fresh := b.buf[from:b.end]
	if b.binary == notice { // beyond the first buffer only in what is found
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

// grow makes room for more where there is none.
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
