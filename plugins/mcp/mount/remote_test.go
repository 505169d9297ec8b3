package mount

import (
	"net/http"
	"testing"
)

// TestMissingScopes checks that the advice for a login contains only scopes that are safe in a shell.
func TestMissingScopes(t *testing.T) {
	for challenge, want := range map[string]string{
		`Bearer error="insufficient_scope", scope="mcp:read https://a.example/b.write"`: " --add-scope mcp:read --add-scope https://a.example/b.write",
		`Bearer error="insufficient_scope", scope="a;rm $(id) --port=1 ok"`:             " --add-scope ok",
		`Bearer error="insufficient_scope"`:                                             "",
		`Bearer scope="1 2 3 4 5 6 7 8 9 10 11 12"`:                                     " --add-scope 1 --add-scope 2 --add-scope 3 --add-scope 4 --add-scope 5 --add-scope 6 --add-scope 7 --add-scope 8 --add-scope 9 --add-scope 10",
		`Bearer "`: "",
	} {
		if got := missingScopes(http.Header{"Www-Authenticate": {challenge}}); got != want {
			t.Errorf("%s: %q, want %q", challenge, got, want)
		}
	}
}
