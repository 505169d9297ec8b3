package process

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// maxLine is the maximum length of an incomplete line that a [JSONLines] keeps, in bytes.
const maxLine = 1 << 20

// JSONLines is a writer whose output consists of JSON objects, one a line. It passes lines with an object on, and
// converts each other line to a log entry. It is safe for concurrent use.
type JSONLines struct {
	mu   sync.Mutex
	out  io.Writer
	log  *slog.Logger
	rest []byte // the last line, which is not complete
}

// NewJSONLines returns a writer to out. The caller must call Flush after the last write.
func NewJSONLines(out io.Writer) *JSONLines {
	return &JSONLines{out: out, log: slog.New(slog.NewJSONHandler(out, nil))}
}

// Write implements [io.Writer].
func (j *JSONLines) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, p...)
	for {
		line, rest, complete := bytes.Cut(j.rest, []byte("\n"))
		if !complete && len(line) < maxLine {
			return len(p), nil
		}
		if err := j.line(line); err != nil {
			return 0, err
		}
		j.rest = append(j.rest[:0], rest...)
	}
}

// Flush writes an incomplete line.
func (j *JSONLines) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := j.rest
	j.rest = nil
	return j.line(line)
}

func (j *JSONLines) line(line []byte) error {
	text := strings.TrimSpace(string(line))
	switch {
	case text == "":
		return nil
	case text[0] == '{' && json.Valid(line):
		_, err := j.out.Write(append(line[:len(line):len(line)], '\n'))
		return err
	}
	text = strings.TrimPrefix(text, "toolhost: ")
	if message, ok := strings.CutPrefix(text, "warning: "); ok {
		j.log.Warn(message)
	} else {
		j.log.Info(text)
	}
	return nil
}
