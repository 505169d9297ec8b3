// Package nodename checks the names of the nodes of a fleet.
package nodename

import (
	"fmt"
	"strings"
)

// maxLength is the maximum length of the name of a node, so that the name in its certificate is a valid DNS name.
const maxLength = 40

// Check returns an error if a text cannot name a node.
func Check(node string) error {
	ok := node != "" && len(node) <= maxLength && node[0] != '-' && node[len(node)-1] != '-'
	for _, r := range node {
		ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}
	if !ok {
		return fmt.Errorf("%q cannot name a node. Use at most %d lower-case letters, digits and '-', such as east1", node, maxLength)
	}
	return nil
}

// Of turns the name of a machine into a name for a node.
func Of(machine string) string {
	machine, _, _ = strings.Cut(strings.ToLower(machine), ".")
	out := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, machine), "-")
	return out[:min(len(out), maxLength)]
}
