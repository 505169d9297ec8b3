package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestJSONLines checks that each line of any output is a JSON object with the text of the line.
func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	j := NewJSONLines(&out)
	for _, part := range []string{"toolhost: listen", "ing on x\n\nwarning: old\n", `{"level":"DEBUG","msg":"as it is"}` + "\n{not JSON}\n", strings.Repeat("y", maxLine) + "\r\n", "no newline"} {
		if n, err := j.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := j.Flush(); err != nil {
		t.Error(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var e struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%.100q: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%s %.20s", e.Level, e.Msg))
	}
	want := "INFO listening on x|WARN old|DEBUG as it is|INFO {not JSON}|INFO yyyyyyyyyyyyyyyyyyyy|INFO no newline"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// TestJSONLinesOfManyWriters checks that lines of several goroutines are not mixed.
func TestJSONLinesOfManyWriters(t *testing.T) {
	var out bytes.Buffer
	j := NewJSONLines(&out)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				fmt.Fprintf(j, "line %d\n", i)
			}
		})
	}
	all.Wait()
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 800 {
		t.Errorf("%d lines", n)
	}
	for line := range bytes.Lines(out.Bytes()) {
		if !json.Valid(line) {
			t.Errorf("%q", line)
		}
	}
}
