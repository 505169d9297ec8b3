package mcpstdio

import (
	"os/exec"
	"strings"
	"testing"
)

// TestServerEnds checks that a request to a server that ends returns an error.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), exec.Command("sh", "-c", "read line"))
	if err == nil || !strings.Contains(err.Error(), "ended") {
		t.Error(err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line            string
		id              int64
		result, failure string
		bad             bool
	}{
		{`{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"a \"quoted\" } \\\\"}]}}`, 7, `{"content":[{"text":"a \"quoted\" } \\\\"}]}`, "", false},
		{`{ "result" : {"id": 9, "error": {}} , "jsonrpc": "2.0", "id" : 3 }`, 3, `{"id": 9, "error": {}}`, "", false},
		{`{"result":[],"id":-4}`, -4, `[]`, "", false},
		{`{"id":5,"error":{"code":-1,"message":"no, \\"}}`, 5, "", `{"code":-1,"message":"no, \\"}`, false},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":1,"result":2}}`, 0, "", "", true},
		{`{"id":1,"result":{},"error":{}}`, 0, "", "", true},
		{`{"id":"1","result":{}}`, 0, "", "", true},
		{`{"id":1,"result":"cut`, 0, "", "", true},
		{`{"id"`, 0, "", "", true},
		{`{`, 0, "", "", true},
		{``, 0, "", "", true},
	} {
		id, r, err := decode([]byte(tc.line + "\n"))
		if (err != nil) != tc.bad || id != tc.id || string(r.result) != tc.result || string(r.failure) != tc.failure {
			t.Errorf("%s: %d %q %q %v", tc.line, id, r.result, r.failure, err)
		}
	}
}
