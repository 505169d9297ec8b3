package tool_test

import (
	"encoding/json"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// TestRetryAfter checks the form of a time in the JSON of an error, and that it survives.
func TestRetryAfter(t *testing.T) {
	for d, want := range map[time.Duration]string{29798 * time.Millisecond: "29.798", time.Second: "1", 1500 * time.Microsecond: "0.0015"} {
		b, err := json.Marshal(tool.Errorf(tool.Unavailable, "busy").WithRetryAfter(d))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			RetryAfter json.RawMessage `json:"retry_after"`
		}
		var back tool.Error
		if json.Unmarshal(b, &got) != nil || string(got.RetryAfter) != want || json.Unmarshal(b, &back) != nil || back.RetryAfter != d {
			t.Errorf("%s becomes %s and then %s", d, b, back.RetryAfter)
		}
	}
}
