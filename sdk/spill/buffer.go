// Package spill shortens what is too long for a result. A [Buffer] keeps the beginning and the end of a text in memory
// and writes a long text to a file of a [Store]. The directory of the store is usually the directory "output" in the
// state directory of a plugin, whose files all tools can read.
package spill

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

const (
	// Half is the number of bytes kept in memory from the beginning of a stream. The same number is kept from its
	// end.
	Half = 25_000
	// MaxSpill limits the number of bytes of a stream that are written to a file.
	MaxSpill = 64 << 20
)

// Buffer keeps the first and the last [Half] bytes of a stream. It writes longer streams to a file. It is safe for
// concurrent use.
type Buffer struct {
	name  string // name of the stream, for the file name and for messages
	store *Store

	mu    sync.Mutex
	head  []byte
	tail  []byte // the end of the stream; a ring buffer when it contains Half bytes
	next  int    // write position in the ring buffer
	size  int64
	lines int64 // number of line breaks
	spill spill
}

// spill is the file that contains the whole of a long stream.
type spill struct {
	file *os.File
	path string
	size int64
	err  error // the reason why the file is incomplete; nil for a complete file
}

// NewBuffer returns a buffer for the stream with the given name. If the stream becomes too long, the buffer creates
// a file in store.
func NewBuffer(name string, store *Store) *Buffer { return &Buffer{name: name, store: store} }

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size+int64(len(p)) > 2*Half && b.size <= 2*Half {
		b.openSpill()
	}
	b.writeSpill(p)
	b.size += int64(len(p))
	b.lines += int64(bytes.Count(p, []byte{'\n'}))
	n := len(p)
	if free := Half - len(b.head); free > 0 {
		k := min(free, len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > Half {
		p = p[len(p)-Half:]
	}
	if free := Half - len(b.tail); free > 0 {
		k := min(free, len(p))
		b.tail = append(b.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(b.tail[b.next:], p)
		b.next = (b.next + k) % Half
		p = p[k:]
	}
	return n, nil
}

// WriteString is like Write. It copies the text piece by piece, so that a long text is not in memory twice.
func (b *Buffer) WriteString(s string) (int, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{b}, struct{ io.Reader }{strings.NewReader(s)},
		make([]byte, min(len(s), 64<<10)+1))
	return int(n), err
}

// kept returns the bytes in memory: the beginning and the end of the stream.
func (b *Buffer) kept() (head, tail []byte) {
	tail = make([]byte, 0, len(b.tail))
	tail = append(tail, b.tail[b.next:]...)
	return b.head, append(tail, b.tail[:b.next]...)
}

// openSpill creates the file if necessary, and writes the bytes in memory to the file. It must be called while the
// memory still contains the whole stream.
func (b *Buffer) openSpill() {
	if b.spill.path != "" {
		return
	}
	f, err := b.store.create(b.name + ".txt")
	if err != nil {
		b.spill.err = err
		return
	}
	b.spill = spill{file: f, path: f.Name()}
	head, tail := b.kept()
	b.writeSpill(head)
	b.writeSpill(tail)
}

func (b *Buffer) writeSpill(p []byte) {
	if b.spill.file == nil {
		return
	}
	p = p[:min(int64(len(p)), MaxSpill-b.spill.size)]
	granted := b.store.reserve(int64(len(p)))
	n, err := b.spill.file.Write(p[:granted])
	b.spill.size += int64(n)
	if err == nil && granted < int64(len(p)) {
		err = b.store.full()
	}
	if err != nil {
		b.spill.err = err
	}
	if err != nil || b.spill.size >= MaxSpill {
		b.closeSpill()
	}
	if b.spill.size == 0 && err != nil {
		_ = os.Remove(b.spill.path)
		b.spill.path = ""
	}
}

func (b *Buffer) closeSpill() {
	if b.spill.file != nil {
		if err := b.spill.file.Close(); err != nil && b.spill.err == nil {
			b.spill.err = err
		}
		b.spill.file = nil
	}
}

// Size returns the number of bytes written so far.
func (b *Buffer) Size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size
}

// Text is the text of a stream, shortened for a result.
type Text struct {
	// Shown is valid UTF-8. If text was omitted, Shown contains a notice with the omitted size and the path of the
	// complete file.
	Shown string
	// Cut means that text was omitted.
	Cut bool
	// Path is the file with the complete stream if text was omitted. It is empty if the file could not be created.
	Path string
}

// Text returns the stream, shortened to at most limit characters, and closes the file. It must be called once, after
// the last write.
func (b *Buffer) Text(limit int) Text {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.closeSpill()
	return b.text(limit)
}

// Peek returns the stream written so far, shortened to at most limit characters. It does not close the file.
func (b *Buffer) Peek(limit int) Text {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text(limit)
}

// Close closes the file. Call it after the last write.
func (b *Buffer) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeSpill()
}

// Tail returns the last lines written so far, at most [Half] bytes. The result "path" is the file with the complete
// stream, or "" if no file exists.
func (b *Buffer) Tail(lines int) (text, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	head, tail := b.kept()
	if b.size <= 2*Half {
		tail = append(slices.Clone(head), tail...)
	}
	tail = cutStart(tail, Half)
	i := len(bytes.TrimSuffix(tail, []byte{'\n'}))
	for ; lines > 0 && i >= 0; lines-- {
		i = bytes.LastIndexByte(tail[:i], '\n')
	}
	return validText(tail[i+1:]), b.spill.path
}

// text implements Text and Peek. The caller must hold b.mu.
func (b *Buffer) text(limit int) Text {
	head, tail := b.kept()
	if b.size <= int64(limit) && b.size <= 2*Half {
		return Text{Shown: validText(append(slices.Clone(head), tail...))}
	}
	if b.size <= 2*Half { // the memory contains the whole stream, but the limit of the result is lower
		b.openSpill()
		head, tail = append(slices.Clone(head), tail...), nil
	}
	room := max(0, limit-len(b.notice(b.size, b.lines))-len("\n"))
	if tail == nil {
		tail = head
	}
	head, tail = cutEnd(head, room/2), cutStart(tail, room-room/2)
	left := b.size - int64(len(head)+len(tail))
	lines := b.lines - int64(bytes.Count(head, []byte{'\n'})+bytes.Count(tail, []byte{'\n'}))
	notice := b.notice(left, lines)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		notice = "\n" + notice
	}
	return Text{Shown: validText(head) + notice + validText(tail), Cut: true, Path: b.spill.path}
}

func (b *Buffer) notice(left, lines int64) string {
	what := fmt.Sprintf("[… %d bytes (%d lines) of %s omitted; ", left, lines, b.name)
	s := b.spill
	switch {
	case s.path == "":
		return what + fmt.Sprintf("the omitted text could not be kept in a file: %v …]\n", s.err)
	case s.err != nil:
		return what + fmt.Sprintf("the first %d bytes are in %s, and the rest could not be written: %v …]\n", s.size, s.path, s.err)
	case s.size < b.size:
		return what + fmt.Sprintf("the first %d bytes of %d (the maximum) are in %s …]\n", s.size, b.size, s.path)
	}
	return what + fmt.Sprintf("the whole output is in %s …]\n", s.path)
}
