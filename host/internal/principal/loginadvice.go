package principal

import (
	"strings"

	"toolhost.dev/host/internal/lazyregexp"
)

// command matches the login command in an error of a remote server. The plugin for MCP servers writes it. Punctuation
// of the sentence can follow.
var command = lazyregexp.New(`toolhost mcp login (\w[\w.-]*\b)((?: --add-scope \w[\w:./-]*\b)*)`)

// LoginCommand returns the login command in the message of an error, or "".
func LoginCommand(message string) string { return command.FindString(message) }

// LoginNeeded returns the field for which a person must log in to resolve an error, and the scopes that the current
// login lacks. The field is "" for other errors.
func LoginNeeded(message string) (field string, scopes []string) {
	m := command.FindStringSubmatch(message)
	if m == nil {
		return "", nil
	}
	for i, word := range strings.Fields(m[2]) {
		if i%2 == 1 {
			scopes = append(scopes, word)
		}
	}
	return m[1], scopes
}
