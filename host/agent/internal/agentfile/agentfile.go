// Package agentfile edits settings files in TOML and in JSON with comments. An edit changes only the affected bytes.
// Comments, order, unknown keys and line endings stay the same. Most callers want [Parse].
package agentfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
)

// Document is a parsed settings file. A path names nested keys.
type Document interface {
	// Get returns the value at a path. Values have the types of encoding/json.
	Get(path ...string) (value any, ok bool)
	// Line returns the line number of a key in the document as it was parsed. It returns 0 if the key does not exist.
	Line(path ...string) int
	// Repeated returns the keys that occur more than once in an object. For such a key, the last value applies.
	Repeated(path ...string) []string
	// Set sets a value and creates missing parent objects. If a parent exists but is not an object, Set returns an
	// error.
	Set(value any, path ...string) error
	// Add appends an item to a list unless the list already contains the item. It creates a missing list.
	Add(item string, path ...string) error
	// Delete removes a key. Remove removes an item from a list. Both methods do nothing if the key or item does not
	// exist.
	Delete(path ...string) error
	Remove(item string, path ...string) error
	Bytes() []byte
}

// Parse parses a settings file. A name that ends in ".toml" means TOML. Every other name means JSON with comments.
// Empty content means an empty document. The error names the file and the line.
func Parse(name string, content []byte) (Document, error) {
	if filepath.Ext(name) == ".toml" {
		return parseTOML(name, content)
	}
	return parseJSON(name, content)
}

// Same reports whether two values are equal as JSON.
func Same(a, b any) bool {
	x, errX := normal(a)
	y, errY := normal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// normal converts a value to the types that encoding/json decodes to.
func normal(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// shown formats a path for messages.
func shown(path []string) string { return strings.Join(path, ".") }

// notObject returns the error for a path with a parent that is not an object.
func notObject(name string, path []string) error {
	return fmt.Errorf("%s: %s is not an object; change it by hand", name, shown(path))
}

// newline returns the line ending of a text.
func newline(b []byte) string {
	if bytes.Contains(b, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
