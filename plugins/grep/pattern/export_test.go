package pattern

import "strings"

// String joins the literals of each set by "|", and the sets by "&".
func (l Literals) String() string {
	var out []string
	for _, s := range l.Sets {
		out = append(out, strings.Join(s, "|"))
	}
	return strings.Join(out, " & ")
}
