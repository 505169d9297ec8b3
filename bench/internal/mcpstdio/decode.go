package mcpstdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

var errNotReply = errors.New("the line is not the answer to a request")

// decode parses an answer from a line of valid JSON. It returns the id and the other fields.
func decode(line []byte) (id int64, r reply, err error) {
	rest := bytes.TrimSpace(line)
	known := false
	for len(rest) > 1 && rest[0] != '}' {
		key := value(rest[1:]) // skip the opening brace or the comma
		rest = bytes.TrimLeft(rest[1+len(key):], " \t")
		if len(key) == 0 || len(rest) == 0 || rest[0] != ':' {
			return 0, r, errNotReply
		}
		is := value(rest[1:])
		rest = rest[1+len(is):]
		is = bytes.TrimSpace(is)
		switch string(bytes.TrimSpace(key)) {
		case `"id"`:
			id, err = strconv.ParseInt(string(is), 10, 64)
			known = err == nil
		case `"result"`:
			r.result = json.RawMessage(is)
		case `"error"`:
			r.failure = json.RawMessage(is)
		}
	}
	if !known || (r.result == nil) == (r.failure == nil) {
		return 0, reply{}, errNotReply
	}
	return id, r, nil
}

// value returns the JSON value at the beginning of a text.
func value(text []byte) []byte {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; ; i++ {
				end := bytes.IndexByte(text[i:], '"')
				if end < 0 {
					return text
				}
				i += end
				escapes := 0
				for text[i-1-escapes] == '\\' {
					escapes++
				}
				if escapes%2 == 0 {
					break
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return text[:i]
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}
