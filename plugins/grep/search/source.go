package search

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// source is a reader of a file whose beginning was already read.
type source struct {
	head []byte
	eof  bool // true if the file ends after head
	rest io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	switch {
	case len(s.head) > 0:
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	case s.eof:
		return 0, io.EOF
	}
	return s.rest.Read(p)
}

// sniff reads the beginning of a file and removes its byte order mark. It returns a reader of the whole file as UTF-8.
// If the file has a byte order mark, the result "encoded" is true.
func sniff(r io.Reader, buf []byte) (src io.Reader, encoded bool, err error) {
	n, err := io.ReadFull(r, buf)
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !ended {
		return nil, false, err
	}
	s := &source{head: buf[:n], eof: ended, rest: r}
	for _, mark := range marks {
		if rest, ok := bytes.CutPrefix(s.head, mark.bytes); ok {
			s.head = rest
			if mark.encoding == nil {
				return s, true, nil
			}
			return transform.NewReader(s, mark.encoding.NewDecoder()), true, nil
		}
	}
	return s, false, nil
}

var marks = []struct {
	bytes    []byte
	encoding encoding.Encoding // a nil encoding means UTF-8
}{
	{[]byte("\xEF\xBB\xBF"), nil},
	{[]byte("\xFF\xFE"), unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{[]byte("\xFE\xFF"), unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
}
