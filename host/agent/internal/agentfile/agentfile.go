// Package agentfile edits settings files in JSON with comments and in TOML. Everything that an edit does not concern keeps
// its bytes: comments, order, unknown keys and line ends. Most callers want [Parse].
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
	// Get returns the value at a path as encoding/json decodes it.
	Get(path ...string) (value any, ok bool)
	// Set sets a value. It creates the objects on the way. It returns an error if something else is in their place.
	Set(value any, path ...string) error
	// Add appends an item to a list unless the list contains it. It creates the list.
	Add(item string, path ...string) error
	// Delete removes a key. Remove removes an item from a list. Both do nothing if it does not exist.
	Delete(path ...string) error
	Remove(item string, path ...string) error
	Bytes() []byte
}

// Parse parses a settings file. A name that ends in ".toml" means TOML, and every other name JSON with comments. Empty
// content is an empty document. The error names the file and the line.
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

// normal returns a value in the types of encoding/json.
func normal(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// shown returns a path for messages.
func shown(path []string) string { return strings.Join(path, ".") }

// notObject is the error for a path that leads through something that is not an object.
func notObject(name string, path []string) error {
	return fmt.Errorf("%s: %s is not an object; change it by hand", name, shown(path))
}

// newline returns the line end of a text.
func newline(b []byte) string {
	if bytes.Contains(b, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
