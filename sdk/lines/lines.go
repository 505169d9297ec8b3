// Package lines implements [Reader], which reads lines and limits their length. It is for untrusted peers, which can
// send a line that never ends.
//
// A line is too long if it has more bytes than the limit, not counting its line ending. An overlong line does not
// end the stream. The reader returns the beginning of the line with a [TooLongError], skips the rest of the line,
// and continues with the next line.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxHead limits how many bytes of an overlong line are kept from its beginning. maxTail limits how many bytes
	// are kept from its end.
	maxHead = 64 << 10
	maxTail = 512

	bufferSize = 64 << 10
)

// TooLongError is the error for a line that is longer than the reader's limit.
type TooLongError struct {
	// Limit is the reader's limit, in bytes.
	Limit int
	// Size is the length of the line, in bytes, without the line ending.
	Size int
	// Tail contains the last bytes of the line, at most 512, without the line ending.
	Tail []byte
	// Err is the error that ended the line, such as [io.EOF]. Err is nil if a line ending ended the line.
	Err error
}

// Unwrap returns the field Err.
func (e *TooLongError) Unwrap() error { return e.Err }

// Error returns a message with the limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the line is longer than %d bytes", e.Limit)
}

// Reader reads lines. It is not safe for concurrent use.
type Reader struct {
	in    *bufio.Reader
	limit int
}

// NewReader returns a reader of the lines of r. The limit is the maximum length of a line in bytes, without the line
// ending. The reader buffers its input, so it can read more bytes from r than it returns.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, bufferSize), limit: limit}
}

// Read returns the next line without its line ending, "\n" or "\r\n". The caller can keep and
// change the line.
//
//   - If the line is too long, Read returns its first bytes and a [*TooLongError]. The number of
//     returned bytes is at most 64 KiB and at most the limit. The next call returns the line
//     after the overlong one, unless the TooLongError wraps the error of a failed read.
//   - If the stream ends before a line ending, Read returns the incomplete line and [io.EOF].
//   - If reading fails, Read returns the part of the line read so far and the error.
func (r *Reader) Read() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > r.limit+len("\r\n") {
			return r.skip(append(line, part...), err)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = trimEnding(line)
		if len(line) > r.limit {
			return r.tooLong(line, line, len(line), err)
		}
		return line, err
	}
}

// skip reads the rest of an overlong line. The parameter "line" is the beginning of the line, and err is the error of
// the last read.
func (r *Reader) skip(line []byte, err error) ([]byte, error) {
	head := bytes.Clone(line[:min(len(line), r.limit, maxHead)])
	last := func(b []byte) []byte { return b[max(0, len(b)-maxTail-len("\r\n")):] }
	tail, size := bytes.Clone(last(line)), len(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = r.in.ReadSlice('\n')
		size += len(part)
		tail = bytes.Clone(last(append(tail, part...)))
	}
	trimmed := trimEnding(tail)
	return r.tooLong(head, trimmed, size-(len(tail)-len(trimmed)), err)
}

func (r *Reader) tooLong(head, tail []byte, size int, err error) ([]byte, error) {
	return head[:min(len(head), r.limit, maxHead)], &TooLongError{
		Limit: r.limit, Size: size, Tail: tail[max(0, len(tail)-maxTail):], Err: err,
	}
}

func trimEnding(line []byte) []byte {
	if rest, ok := bytes.CutSuffix(line, []byte("\n")); ok {
		return bytes.TrimSuffix(rest, []byte("\r"))
	}
	return line
}
