package need_test

import (
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"
)

// outcome records how a test ended.
type outcome struct {
	testing.TB
	end string
}

func (*outcome) Helper() {}

func (o *outcome) Fatal(...any) { o.end += "failed" }

func (o *outcome) Skip(...any) { o.end += "skipped" }

// TestMissing checks that CI leaves out no test.
func TestMissing(t *testing.T) {
	for ci, want := range map[string]string{"true": "failed", "": "skipped"} {
		t.Setenv("CI", ci)
		o := &outcome{TB: t}
		if need.Missing(o, "no reason"); !strings.HasPrefix(o.end, want) {
			t.Errorf("CI=%s: the test ended as %q, want %q", ci, o.end, want)
		}
	}
}
