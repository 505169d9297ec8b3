package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"toolhost.dev/sdk/lines"
)

const (
	maxLogLine    = 64 << 10 // longer lines are truncated
	lastWordsSize = 8 << 10
)

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// scanLines calls f for each line of r that is not empty. It truncates lines longer than maxLogLine. Therefore a plugin
// cannot block the host with an endless line.
func scanLines(r io.Reader, f func([]byte)) {
	in := lines.NewReader(r, maxLogLine)
	for {
		line, err := in.Read()
		if l := bytes.TrimRight(line, "\r"); len(l) > 0 {
			f(l)
		}
		if tooLong := (*lines.TooLongError)(nil); errors.As(err, &tooLong) {
			err = tooLong.Err
		}
		if err != nil {
			return
		}
	}
}

// Line is a line that a plugin printed.
type Line struct {
	Plugin  string
	PID     int
	Level   slog.Level
	Message string
	// Fields are the additional fields of a line in hclog's JSON format. It can be nil.
	Fields map[string]string
}

// maxFields is the maximum number of fields of a line.
const maxFields = 32

// parseLine parses a line of a plugin. A line in hclog's JSON format keeps its level, message and fields. Any other
// line becomes the message. parseLine validates every field, because a plugin can print any value.
func parseLine(line []byte) Line {
	l := Line{Level: slog.LevelInfo, Message: string(line)}
	if line[0] != '{' {
		return l
	}
	var entry map[string]json.RawMessage
	if json.Unmarshal(line, &entry) != nil {
		return l
	}
	var level string
	if json.Unmarshal(entry["@level"], &level) == nil && level != "" {
		l.Level = levelOf(level)
	}
	var message *string
	if json.Unmarshal(entry["@message"], &message) != nil || message == nil {
		return l
	}
	l.Message = *message
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		if strings.HasPrefix(name, "@") || len(l.Fields) == maxFields {
			continue
		}
		if l.Fields == nil {
			l.Fields = make(map[string]string)
		}
		var text string
		if json.Unmarshal(entry[name], &text) != nil {
			text = string(entry[name])
		}
		l.Fields[name] = text
	}
	return l
}

// sink receives the lines of a plugin: the host's log and the plugin's own log.
type sink struct {
	log    *slog.Logger
	site   Site // can be nil
	plugin string
	pid    func() int // can be nil
}

func (s *sink) write(b []byte) {
	l := parseLine(b)
	l.Plugin = s.plugin
	if s.pid != nil {
		l.PID = s.pid()
	}
	attrs := []slog.Attr{slog.String("plugin", s.plugin)}
	if len(l.Fields) > 0 { // a group, so that no field can pretend to be the host's
		var fields []any
		for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
			fields = append(fields, slog.String(name, l.Fields[name]))
		}
		attrs = append(attrs, slog.Group("fields", fields...))
	}
	s.log.LogAttrs(context.Background(), l.Level, l.Message, attrs...)
	if s.site != nil {
		s.site.Keep(l)
	}
}

func levelOf(s string) slog.Level {
	switch strings.ToLower(s) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// tail stores the last complete lines of an output. A limit applies to their total size in bytes.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
	size  int
	limit int
	// panicked reports whether the output contains the report of a Go panic or of a fatal signal. In this case, tail
	// keeps the first lines of the report.
	panicked bool
}

func newTail(limit int) *tail { return &tail{limit: limit} }

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.panicked && crash.Match(line) {
		t.panicked, t.lines, t.size = true, nil, 0
	}
	if t.panicked && t.size > t.limit {
		return
	}
	t.lines = append(t.lines, bytes.Clone(line))
	t.size += len(line)
	for !t.panicked && t.size > t.limit && len(t.lines) > 1 {
		t.size -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// The pattern "crash" matches the first line of the report that Go's runtime prints about a panic or a fatal signal.
// The pattern "addresses" matches the lines of this report that do not help a user.
var crash, addresses = regexp.MustCompile(`^(panic|fatal error|SIG[A-Z0-9]+): `),
	regexp.MustCompile(`^(PC=0x|\[signal )`)

// cause returns the first line of the report about a crash. Without a crash, it returns the last line. It
// truncates a long line.
func (t *tail) cause() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	line := t.lines[len(t.lines)-1]
	if t.panicked {
		line = t.lines[0]
	}
	const most = 200
	text := strings.ToValidUTF8(string(bytes.TrimSpace(line[:min(len(line), most)])), "")
	if len(line) > most {
		text += "…"
	}
	return text
}

// said returns the report about a crash without registers and stacks. Without a crash, it returns the last
// lines.
func (t *tail) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 8
	lines := slices.Clone(t.lines)
	if t.panicked {
		if i := slices.IndexFunc(lines,
			func(l []byte) bool { return bytes.HasPrefix(l, []byte("goroutine ")) }); i > 0 {
			lines = lines[:i]
		}
		lines = slices.DeleteFunc(lines, addresses.Match)
		lines = lines[:min(len(lines), most)]
	}
	lines = lines[max(0, len(lines)-most):]
	if len(lines) == 0 {
		return ""
	}
	return "  " + strings.ToValidUTF8(string(bytes.Join(lines, []byte("\n  "))), "\uFFFD")
}

// logWriter logs the text that a plugin prints through the output streams of go-plugin.
type logWriter struct{ sink *sink }

func (w *logWriter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if l := bytes.TrimRight(line, "\r\n"); len(l) > 0 {
			w.sink.write(l[:min(len(l), maxLogLine)])
		}
	}
	return len(b), nil
}
