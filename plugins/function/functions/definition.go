package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// definition is the definition of a function, converted to a definition of a tool.
type definition struct {
	sdk.Definition
	original string // name that the operator wrote; the tool name can differ, because fewer characters are valid in it
}

// written is a definition as the operator wrote it, in any of the supported forms.
type written struct {
	Type        string          `json:"type"`
	Function    *written        `json:"function"` // the form of OpenAI's chat completions
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`   // the form of OpenAI
	InputSchema json.RawMessage `json:"input_schema"` // the form of Anthropic
	MCPSchema   json.RawMessage `json:"inputSchema"`

	// The following fields belong to objects that contain several definitions.
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
}

// parse parses function definitions, which can be JSON text or decoded JSON.
func parse(given any) ([]*definition, error) {
	raw, ok := given.(string)
	if !ok {
		b, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		raw = string(b)
	}
	var out []*definition
	if err := each(json.RawMessage(raw), &out); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("The list of definitions is empty. Add at least one definition.") //nolint:staticcheck // a sentence for the operator
	}
	return out, nil
}

func each(raw json.RawMessage, out *[]*definition) error {
	raw = bytes.TrimSpace(raw)
	var list []json.RawMessage
	if len(raw) > 0 && raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return syntax(raw, err)
		}
	} else {
		var w written
		if err := json.Unmarshal(raw, &w); err != nil {
			return syntax(raw, err)
		}
		if list = slices.Concat(w.Tools, w.Functions); list == nil {
			d, err := w.definition()
			if err != nil {
				return fmt.Errorf("Definition %d: %w", len(*out)+1, err) //nolint:staticcheck // a sentence for the operator
			}
			*out = append(*out, d)
			return nil
		}
	}
	for _, one := range list {
		if err := each(one, out); err != nil {
			return err
		}
	}
	return nil
}

// syntax adds the line number to the error of a JSON parser.
func syntax(raw []byte, err error) error {
	var s *json.SyntaxError
	if !errors.As(err, &s) {
		return fmt.Errorf("The JSON is not a function definition: %w", err) //nolint:staticcheck // a sentence for the operator
	}
	line := 1 + bytes.Count(raw[:min(int(s.Offset), len(raw))], []byte{'\n'})
	return fmt.Errorf("The JSON cannot be read: line %d: %w", line, err) //nolint:staticcheck // a sentence for the operator
}

func (w *written) definition() (*definition, error) {
	if w.Function != nil {
		w = w.Function
	} else if w.Type != "" && w.Type != "function" && w.Type != "custom" {
		return nil, fmt.Errorf("unsupported type %q; set type to \"function\", or leave type out", w.Type)
	}
	if w.Name == "" {
		return nil, errors.New(`the definition has no name; write {"name": …, "description": …, "parameters": {…}}, with input_schema in place of parameters, or inside {"type": "function", "function": {…}}`)
	}
	d := &definition{original: w.Name}
	d.Name, d.Description = tool.NameOf(w.Name), strings.TrimSpace(w.Description)
	if d.Description == "" {
		d.Description = fmt.Sprintf("The function %s, defined without a description.", w.Name)
	}
	for _, schema := range []json.RawMessage{w.Parameters, w.InputSchema, w.MCPSchema} {
		if len(schema) > 0 && string(schema) != "null" {
			d.Input = schema
		}
	}
	if d.Input == nil {
		d.Input = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return d, nil
}
