package registry

import (
	"bytes"
	"encoding/json"
	"slices"

	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
)

// Shown returns the parameters that are shown to callers, in positional order.
func (e *Entry) Shown() []*tool.Param {
	return slices.DeleteFunc(slices.Clone(e.Schema().Params()), func(p *tool.Param) bool { return p.Hidden })
}

// shown returns an input schema without the hidden parameters. The parts of the schema keep their order.
func shown(schema json.RawMessage) json.RawMessage {
	if !bytes.Contains(schema, []byte(tool.HiddenKeyword)) {
		return schema
	}
	return object(schema, func(key string, value json.RawMessage) json.RawMessage {
		if key != "properties" {
			return value
		}
		return object(value, func(_ string, param json.RawMessage) json.RawMessage {
			var marks map[string]json.RawMessage
			if json.Unmarshal(param, &marks) == nil && string(marks[tool.HiddenKeyword]) == "true" {
				return nil
			}
			return param
		})
	})
}

// object returns a JSON object with the members that the function returns. It leaves out members for which the function
// returns nil.
func object(raw json.RawMessage, member func(key string, value json.RawMessage) json.RawMessage) json.RawMessage {
	out := []byte{'{'}
	for key, value := range rawjson.Members(raw) {
		if value = member(key, value); value == nil {
			continue
		}
		name, err := json.Marshal(key)
		if err != nil { // impossible for strings
			return raw
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}')
}
