//go:build !failpoints

// Package failpoint lets tests kill a node at a step of its work. Programs have failpoints only with the build tag
// "failpoints". Otherwise [At] does nothing, and the compiler removes its calls.
package failpoint

import "encoding/json"

// At marks a step.
func At(string) {}

// Later returns nil. With the build tag "failpoints", it returns fields like those that a later version could add to
// records.
func Later() map[string]json.RawMessage { return nil }
