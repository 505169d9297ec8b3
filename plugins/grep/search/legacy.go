package search

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"toolhost.dev/sdk/workspace/text"
)

// errLegacy ends a line-by-line search if the text is not UTF-8. The encoding of such a text must be detected before
// the text can be searched.
var errLegacy = errors.New("search: the text is not UTF-8")

// legacy decodes a text if its encoding is certain and is neither UTF-8 nor UTF-16. The tools "read" and "edit" detect
// the same encoding. If the encoding is not certain, ok is false, and the bytes are searched as they are.
func legacy(content []byte) (decoded []byte, ok bool) {
	if utf8.Valid(content) || len(content) > text.MaxDecoded || marked(content) {
		return nil, false
	}
	t, err := text.Decode(content)
	if err != nil || t.Guessed() {
		return nil, false
	}
	return t.Content, true
}

// marked reports whether a text begins with a byte order mark.
func marked(content []byte) bool {
	for _, m := range marks {
		if bytes.HasPrefix(content, m.bytes) {
			return true
		}
	}
	return false
}

// again searches a file whose text is not UTF-8. It reads the file from the beginning, because the encoding must
// be detected from the whole file.
func (s *Searcher) again(file File, w Window) (Result, error) {
	src, ok := file.Reader.(io.Seeker)
	if !ok {
		return Result{Binary: -1}, errLegacy
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return Result{Binary: -1}, err
	}
	content, err := io.ReadAll(io.LimitReader(file.Reader, text.MaxDecoded+1))
	if err != nil {
		return Result{Binary: -1}, err
	}
	if decoded, ok := legacy(content); ok {
		content = decoded
	}
	file.Reader = io.MultiReader(bytes.NewReader(content), file.Reader)
	return s.search(file, w, true)
}
