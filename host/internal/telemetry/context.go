package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// TraceHeader is the name of the header that contains a trace context.
const TraceHeader = "traceparent"

// TraceContext identifies a span in a trace. The zero value means that there is no trace.
type TraceContext struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Valid reports whether the context belongs to a trace.
func (c TraceContext) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// ID returns the id of the trace in hexadecimal, or "" if there is no trace.
func (c TraceContext) ID() string {
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// String returns the context as the value of a header. It returns "" if the context is not valid.
func (c TraceContext) String() string {
	if !c.Valid() {
		return ""
	}
	flags := "-00"
	if c.Sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + flags
}

// ParseTrace parses a header. As the standard requires, an invalid header results in the zero TraceContext.
func ParseTrace(header string) (c TraceContext) {
	parts := strings.Split(strings.TrimSpace(header), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return TraceContext{}
	}
	var version, flags [1]byte
	if !read(version[:], parts[0]) || !read(c.Trace[:], parts[1]) || !read(c.Span[:], parts[2]) ||
		!read(flags[:], parts[3]) || !c.Valid() {
		return TraceContext{}
	}
	c.Sampled = flags[0]&1 != 0
	return c
}

// read decodes a lower-case hexadecimal text into the slice "into". It returns false if the text is invalid or has the
// wrong length.
func read(into []byte, text string) bool {
	if len(text) != 2*len(into) || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}

// child returns a context for a new span in the same trace. If c is not valid, it starts a new trace.
func (c TraceContext) child() TraceContext {
	if !c.Valid() {
		_, _ = rand.Read(c.Trace[:]) // the error is ignored, because Read always succeeds
	}
	_, _ = rand.Read(c.Span[:])
	return c
}
