package rawjson_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"toolhost.dev/sdk/rawjson"
)

// TestAppendString compares the encoding of texts with the encoding of the standard library. The texts contain each
// byte at each position, or are random.
func TestAppendString(t *testing.T) {
	same := func(s string) {
		t.Helper()
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got := string(rawjson.AppendString(nil, s)) + "\n"; got != want.String() {
			t.Fatalf("%q: %s, want %s", s, got, want.String())
		}
	}
	for c := range 256 {
		for at := range 17 {
			b := []byte("abcdefghijklmnopq")
			b[at] = byte(c)
			same(string(b))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", " ", "\n", "\x00", "\x1f", "\x7f", "\x80", "\xe2", "é", "日", "\u2028", "\u2029", "\"", "\\", "<", "\xff", "plain text", "😀"}
	for range 20_000 {
		var s strings.Builder
		for range r.IntN(30) {
			s.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		same(s.String())
	}
}
