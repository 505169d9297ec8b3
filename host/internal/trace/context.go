// Package trace follows calls from the frontend to the plugin: W3C trace context, and spans that
// are sent by OpenTelemetry's protocol.
package trace

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Header is the name under which a context is passed on.
const Header = "traceparent"

// Context is where in a trace something happens. The zero value is nowhere.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Valid reports whether it is somewhere.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// ID returns the id of the trace in hexadecimal, or "" if there is no trace.
func (c Context) ID() string {
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// String is the context as a header has it; empty when it is nowhere.
func (c Context) String() string {
	if !c.Valid() {
		return ""
	}
	flags := "-00"
	if c.Sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + flags
}

// Parse reads a header. What is not valid is nowhere, as the standard wants it.
func Parse(header string) (c Context) {
	parts := strings.Split(strings.TrimSpace(header), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return Context{}
	}
	var version, flags [1]byte
	if !read(version[:], parts[0]) || !read(c.Trace[:], parts[1]) || !read(c.Span[:], parts[2]) || !read(flags[:], parts[3]) || !c.Valid() {
		return Context{}
	}
	c.Sampled = flags[0]&1 != 0
	return c
}

// read decodes lower-case hexadecimal of exactly the length.
func read(into []byte, text string) bool {
	if len(text) != 2*len(into) || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}

// child is another place in the same trace, or the first one of a new trace.
func (c Context) child() Context {
	if !c.Valid() {
		_, _ = rand.Read(c.Trace[:]) // never fails
	}
	_, _ = rand.Read(c.Span[:])
	return c
}
