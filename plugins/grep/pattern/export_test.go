package pattern

import "strings"

// String returns the sets joined by "&", and the literals of each joined by "|".
func (l Literals) String() string {
	var out []string
	for _, s := range l.Sets {
		out = append(out, strings.Join(s, "|"))
	}
	return strings.Join(out, " & ")
}
