package testlines

import (
	"bytes"
	"strings"
)

// line returns a valid message, a batch, or something like them.
func (s *Session) line() []byte {
	text := []byte(s.message())
	switch s.random.IntN(4) {
	case 0:
		var all []string
		for range s.random.IntN(5) {
			all = append(all, s.pick(s.message(), s.message(), s.value()))
		}
		text = []byte("[" + strings.Join(all, ",") + "]")
	case 1:
		return text
	}
	for range 1 + s.random.IntN(3) {
		text = s.mutate(text)
	}
	return text
}

// keys are the keys of messages, and some that are nearly the same.
var keys = []string{"jsonrpc", "id", "method", "params", "result", "error", "ID", "Method", "PARAMS", "requestId",
	"name", "arguments", "_meta", "protocolVersion"}

// mutate changes a text in one place.
func (s *Session) mutate(text []byte) []byte {
	n := len(text)
	if n == 0 {
		return []byte(s.value())
	}
	i := s.random.IntN(n)
	j := i + s.random.IntN(min(n-i, 30)+1)
	put := func(at, end int, what string) []byte {
		return append(append(bytes.Clone(text[:at]), what...), text[end:]...)
	}
	switch s.random.IntN(16) {
	case 0:
		return put(i, i+1, string([]byte{byte(s.random.IntN(256))}))
	case 1:
		return put(i, j, "")
	case 2:
		return put(i, i, string(text[i:j]))
	case 3:
		return text[:i]
	case 4:
		return text[i:]
	case 5:
		return put(i, i, s.pick("\x00", "\xff", "\ufeff", "\r", "\t", " ", `"`, `\`, "{", "}", "[", "]", ",", ":",
			"\u2028", "\n", s.value()))
	case 6:
		return put(0, 0,
			s.pick("\ufeff", "\ufeff ", " ", "\t\r", "\v", "\xfe\xff", "\xff\xfe", "log: ", "\n", "\n\n", "\r\n"))
	case 7:
		return put(n, n, s.pick("\r", " ", "\x00", "}", ",", "\r\r", "\n", string(text), "\n"+s.message(), " // end"))
	case 8:
		return []byte("[" + string(text) + "]")
	case 9: // the value of a key
		return s.replaceValue(text)
	case 10: // the name of a key
		return bytes.Replace(text, []byte(`"`+s.pick(keys...)+`"`), []byte(`"`+s.pick(keys...)+`"`), 1)
	case 11, 12: // an additional key
		if at := bytes.LastIndexByte(text, '}'); at > 0 {
			return put(at, at, `,"`+s.pick(keys...)+`":`+s.value())
		}
	case 13:
		if at := bytes.IndexByte(text, '{'); at >= 0 {
			return put(at+1, at+1, `"`+s.pick(keys...)+`":`+s.value()+`,`)
		}
	case 14:
		return utf16(text)
	}
	return []byte(s.value())
}

// replaceValue replaces the value of a key up to the next comma.
func (s *Session) replaceValue(text []byte) []byte {
	key := []byte(`"` + s.pick("jsonrpc", "id", "method", "params", "name", "arguments", "requestId") + `":`)
	before, after, found := bytes.Cut(text, key)
	if !found {
		return text
	}
	end := bytes.IndexAny(after, ",}")
	return bytes.Join([][]byte{before, key, []byte(s.value()), after[max(0, end):]}, nil)
}

// utf16 returns a text in UTF-16. It contains no line feed.
func utf16(text []byte) []byte {
	out := make([]byte, 0, 2*len(text))
	for _, c := range text {
		out = append(out, c, 0)
	}
	return out
}
