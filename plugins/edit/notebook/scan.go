package notebook

import (
	"encoding/json"
	"fmt"
)

// span is the range of a value in a valid JSON text. Its bytes are those from start up to end.
type span struct{ start, end int }

// member is a member of a JSON object. The field "lead" is the offset of the blanks before the key.
type member struct {
	key   string
	lead  int
	at    int // offset of the key
	value span
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the offset after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the offset after the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 { // this bracket ends the object or array that contains the number or word
				return i
			}
			depth--
			i++
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// members returns the members of the object that begins at i. If a name occurs twice, members returns an error.
func members(b []byte, i int) (out []member, err error) {
	seen := make(map[string]bool)
	for i++; ; i++ {
		m := member{lead: i}
		m.at = skipBlanks(b, i)
		if b[m.at] == '}' {
			return out, nil
		}
		i = skipString(b, m.at)
		if err := json.Unmarshal(b[m.at:i], &m.key); err != nil {
			return nil, err
		}
		if seen[m.key] {
			return nil, fmt.Errorf("the name %q occurs twice in an object", m.key)
		}
		seen[m.key] = true
		i = skipBlanks(b, i) + len(":")
		m.value.start = skipBlanks(b, i)
		m.value.end = skipValue(b, m.value.start)
		out = append(out, m)
		if i = skipBlanks(b, m.value.end); b[i] == '}' {
			return out, nil
		}
	}
}

// elements returns the elements of the array that begins at i. The result "end" is the offset of the closing bracket.
func elements(b []byte, i int) (out []span, end int) {
	for i++; ; i++ {
		i = skipBlanks(b, i)
		if b[i] == ']' {
			return out, i
		}
		s := span{i, skipValue(b, i)}
		out = append(out, s)
		if i = skipBlanks(b, s.end); b[i] == ']' {
			return out, i
		}
	}
}
