package principal

import (
	"slices"
	"testing"
)

func TestNeeded(t *testing.T) {
	for message, want := range map[string][]string{
		"the server needs a login; run: toolhost mcp login up":                                                {"up"},
		"Field up: … run: toolhost mcp login up --add-scope a:b --add-scope c; its standard error ends with:": {"up", "a:b", "c"},
		"run: toolhost mcp login my-server_2. The other tools work":                                           {"my-server_2"},
		"run: toolhost mcp status": {""},
	} {
		field, scopes := LoginNeeded(message)
		if got := append([]string{field}, scopes...); !slices.Equal(got, want) {
			t.Errorf("%s: %q", message, got)
		}
	}
}
