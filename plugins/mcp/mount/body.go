package mount

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"toolhost.dev/sdk/rawjson"
)

// isStream reports whether an HTTP response is an event stream.
func isStream(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
}

// foldingBody is the body of an HTTP response, as JSON or as an event stream, in which the results of calls are folded.
// It also skips a byte order mark.
type foldingBody struct {
	io.ReadCloser
	in     *bufio.Reader
	stream bool
	begun  bool
	rest   []byte
	err    error
}

func newFoldingBody(body io.ReadCloser, stream bool) *foldingBody {
	return &foldingBody{ReadCloser: body, in: bufio.NewReader(body), stream: stream}
}

// Read implements io.Reader.
func (b *foldingBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.rest, b.err = b.next()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// next returns the next line of an event stream, or another body as a whole.
func (b *foldingBody) next() ([]byte, error) {
	text, err := b.line()
	for !b.stream && err == nil {
		var more []byte
		more, err = b.line()
		text = append(text, more...)
	}
	if !b.begun {
		b.begun, text = true, bytes.TrimPrefix(text, byteOrderMark)
	}
	if !b.stream {
		return foldedMessage(text), err
	}
	data, isData := bytes.CutPrefix(text, []byte("data:"))
	if data, isLine := bytes.CutSuffix(data, []byte("\n")); isData && (isLine || err != nil) {
		text = slices.Concat([]byte("data:"), foldedMessage(data), []byte("\n"))
	}
	return text, err
}

// line returns the next line. A line that is longer than a message can be is returned in parts.
func (b *foldingBody) line() (line []byte, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxFrame; {
		var part []byte
		part, err = b.in.ReadSlice('\n')
		line = append(line, part...)
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return line, err
}

// foldedMessage returns a message with the result of a call in the folded form. It returns any other text unchanged.
func foldedMessage(raw []byte) []byte {
	if !rawjson.Valid(raw) {
		return raw
	}
	m, err := parseObject(raw)
	if result := m.get("result"); err == nil && result != nil {
		if short := folded(result); len(short) <= maxFrame && !bytes.Equal(short, result) {
			m.set("result", short)
			return m.json()
		}
	}
	return raw
}
