package mount

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFoldingBody checks which parts of a response are folded, and that all others arrive as they are.
func TestFoldingBody(t *testing.T) {
	const call, other = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"hologram"}]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`
	short := string(foldedMessage([]byte(call)))
	if !strings.Contains(short, `"content":[]`) || !strings.Contains(short, foldedKey) {
		t.Fatal(short)
	}
	long := `{"jsonrpc":"2.0","id":3,"result":{"content":["` + strings.Repeat("x", maxFrame) + `"]}}`
	quotes := `{"jsonrpc":"2.0","id":3,"result":{"content":["` + strings.Repeat(`\"`, maxFrame/3) + `"]}}` // fits only unfolded
	for _, tc := range []struct {
		stream     bool
		text, want string
	}{
		{false, call, short},
		{false, "\ufeff" + strings.Replace(call, ",", ",\n ", 1) + "\n", short},
		{false, other + "\n", other + "\n"},
		{false, "[" + call + "]", "[" + call + "]"},
		{false, "no JSON\n", "no JSON\n"},
		{false, "", ""},
		{true, "\ufeffid: 1\r\ndata: " + call + "\r\n\r\n: ping\n\ndata: " + other + "\n\n", "id: 1\r\ndata:" + short + "\n\r\n: ping\n\ndata: " + other + "\n\n"},
		{true, "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"m\"}\n\ndata:\n\n", "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"m\"}\n\ndata:\n\n"},
		{true, "data: " + quotes + "\n\ndata: " + call + "\n\n", "data: " + quotes + "\n\ndata:" + short + "\n\n"},
		{true, "data: " + long + "\n\n", "data: " + long + "\n\n"},
		{true, "data: " + call, "data:" + short + "\n"},
	} {
		body := newFoldingBody(io.NopCloser(iotest.HalfReader(strings.NewReader(tc.text))), tc.stream)
		if got, err := io.ReadAll(body); err != nil || string(got) != tc.want {
			t.Errorf("%v %.200q: %.500q, want %.500q, %v", tc.stream, tc.text, got, tc.want, err)
		}
	}
	broken := newFoldingBody(io.NopCloser(io.MultiReader(strings.NewReader("data: 1\n"), iotest.ErrReader(errTooLarge))), true)
	if got, err := io.ReadAll(broken); string(got) != "data: 1\n" || err != errTooLarge { //nolint:errorlint // it is passed on as it is
		t.Errorf("%q, %v", got, err)
	}
}
