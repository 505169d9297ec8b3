package tool

import (
	"encoding/json"
	"time"
)

// The kinds of files in [Kept].
const (
	// KeptOutput is long output of calls, in the subdirectory "output" of the state directory.
	KeptOutput = "output"
	// KeptUndo is what the tools with [RoleUndo] and [RoleRedo] need.
	KeptUndo = "undo"
)

// Kept describes files that a plugin keeps in its state directory for a time.
type Kept struct {
	// Kind is one of [KeptOutput] and [KeptUndo]. A host ignores other kinds.
	Kind string `json:"kind"`
	// Files contains globs for names in the state directory, such as "history.db*". A directory that matches counts
	// with all its files. They only serve the sizes that a host shows.
	Files []string `json:"files,omitempty"`
	// Age is the attribute of the plugin's configuration that limits the age of the files, as a duration such as
	// "720h". It is empty if there is no such attribute.
	Age string `json:"age_attribute,omitempty"`
}

// Ages contains the ages that the operator sets for all plugins. A zero age means that the plugin decides.
type Ages struct{ Output, Undo time.Duration }

// Retain returns a configuration of the plugin that contains the ages. An attribute that the configuration has already,
// or that the plugin does not have, stays as it is.
func (d *Description) Retain(config json.RawMessage, ages Ages) json.RawMessage {
	values := make(map[string]json.RawMessage)
	schema, err := ParseSchema(d.ConfigSchema)
	if err != nil || len(config) > 0 && json.Unmarshal(config, &values) != nil {
		return config // the check of the configuration reports the error
	}
	if values == nil { // the configuration is null
		values = make(map[string]json.RawMessage)
	}
	set := false
	for _, k := range d.Keeps {
		age := map[string]time.Duration{KeptOutput: ages.Output, KeptUndo: ages.Undo}[k.Kind]
		if _, given := values[k.Age]; age <= 0 || given || schema.Param(k.Age) == nil {
			continue
		}
		values[k.Age], _ = json.Marshal(age.String()) // error ignored: a string can always be encoded
		set = true
	}
	if !set {
		return config
	}
	out, err := json.Marshal(values)
	if err != nil {
		return config // impossible, because the values were decoded from JSON
	}
	return out
}
