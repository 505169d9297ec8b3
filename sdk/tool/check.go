package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"toolhost.dev/sdk/suggest"
)

// ViolationKind is the kind of a [Violation].
type ViolationKind string

// The values of [ViolationKind].
const (
	Missing    ViolationKind = "missing"
	Unknown    ViolationKind = "unknown"
	WrongType  ViolationKind = "type"
	NotInEnum  ViolationKind = "enum"
	Constraint ViolationKind = "constraint"
)

// Violation is one problem in the arguments of a call.
type Violation struct {
	Kind    ViolationKind `json:"kind"`
	Param   string        `json:"param"`
	Message string        `json:"message"`
}

// Check validates the arguments of a call. The values of args must be JSON. Check returns the arguments without nulls
// that mean "not given". Unless the schema is [Schema.Verbatim], it fills in defaults and writes integers without
// exponents. It also returns all violations. Arguments can satisfy the schema with or without the defaults. Check does
// not change args.
func (s *Schema) Check(args map[string]json.RawMessage) (map[string]json.RawMessage, []Violation) {
	var bad []Violation
	report := func(kind ViolationKind, param, format string, a ...any) {
		bad = append(bad, Violation{Kind: kind, Param: param, Message: fmt.Sprintf(format, a...)})
	}
	out := make(map[string]json.RawMessage, len(s.params))
	var values map[string]any // nil if Check can check the whole schema without the library
	if !s.plain {
		values = make(map[string]any, len(s.params))
	}
	known := 0
	for _, p := range s.params {
		raw, given := args[p.Name]
		if given {
			known++
		}
		if given && string(raw) == "null" && !slices.Contains(p.Types, "null") && len(p.Types) > 0 {
			given = false
		}
		if !given {
			if p.Default == nil && p.Required {
				report(Missing, p.Name, "missing required parameter %q (%s)", p.Name, p.TypeName())
			}
			continue
		}
		if s.plain && p.isText() && len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
			out[p.Name] = raw // do not decode the text, because it can be a whole file and its value does not matter here
			continue
		}
		var v any
		if n, err := strconv.Atoi(string(raw)); err == nil && raw[0] != '+' && (raw[0] != '0' || len(raw) == 1) &&
			n == int(float64(n)) && n >= 0 {
			v = float64(n) // try the integer first: most numbers are integers, and parsing an integer is ten times faster
		} else if err := json.Unmarshal(raw, &v); err != nil {
			report(WrongType, p.Name, "parameter %q is not JSON: %v", p.Name, err)
			continue
		}
		if n, ok := v.(float64); ok && !s.verbatim && p.Only("integer") {
			raw = plainInteger(raw, n)
		}
		if p.nested && bytes.Contains(raw, []byte("null")) && dropNulls(v, p.schema) {
			raw = rewritten(raw, func(v any) bool { return dropNulls(v, p.schema) })
		}
		out[p.Name] = raw
		if values != nil {
			values[p.Name] = v
		}
		if v := p.check(v); v != nil {
			bad = append(bad, *v)
		}
	}
	var others []string
	if len(args) > known {
		others = sortedKeys(args)
	}
	for _, name := range others {
		if s.byName[name] != nil {
			continue
		}
		if !s.open {
			report(Unknown, name, "unknown parameter %q.%s", name, suggest.DidYouMean(name, s.names()))
			continue
		}
		var v any
		if err := json.Unmarshal(args[name], &v); err != nil {
			report(WrongType, name, "parameter %q is not JSON: %v", name, err)
			continue
		}
		out[name] = args[name]
		if values != nil {
			values[name] = v
		}
	}
	if !s.verbatim {
		s.fill(out)
	}
	if len(bad) == 0 && !s.plain {
		if bad = s.validate(values); bad != nil && s.satisfiedWithDefaults(out) {
			bad = nil
		}
	}
	return out, bad
}

// fill adds the defaults of absent parameters to arguments, at any depth.
func (s *Schema) fill(args map[string]json.RawMessage) {
	for _, p := range s.params {
		raw, given := args[p.Name]
		if !given {
			raw = p.Default // ParseSchema has checked the default
		}
		if raw != nil && p.defaults {
			raw = rewritten(raw, func(v any) bool { return fillDefaults(v, p.schema) })
		}
		if raw != nil {
			args[p.Name] = raw
		}
	}
}

// satisfiedWithDefaults reports whether arguments satisfy the schema after the defaults are filled in.
func (s *Schema) satisfiedWithDefaults(args map[string]json.RawMessage) bool {
	args = maps.Clone(args)
	s.fill(args)
	return s.resolved.Validate(decoded(args)) == nil
}

// decoded returns arguments as decoded JSON.
func decoded(args map[string]json.RawMessage) map[string]any {
	out := make(map[string]any, len(args))
	for name, raw := range args {
		var v any
		_ = json.Unmarshal(raw, &v) // the error cannot occur, because the caller has parsed the value
		out[name] = v
	}
	return out
}

// dropNulls removes properties with the value null from the objects in v. It removes only properties that the schema
// declares as optional and not nullable. Some models must send every property, and write null for "not given".
// dropNulls reports whether it removed a property.
func dropNulls(v any, s *jsonschema.Schema) (dropped bool) {
	if s == nil {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.Properties {
			value, given := v[name]
			switch {
			case !given || sub == nil:
			case value != nil:
				dropped = dropNulls(value, sub) || dropped
			case !slices.Contains(s.Required, name) && sub.Type != "" && sub.Type != "null":
				delete(v, name)
				dropped = true
			}
		}
	case []any:
		for _, item := range v {
			dropped = dropNulls(item, s.Items) || dropped
		}
	}
	return dropped
}

// fillDefaults adds the defaults that a schema declares to the objects in v, at any depth. It reports whether it added
// a value. It adds none below a default that contains itself, because that would not end. The argument "within" lists
// the schemas of the defaults around v.
func fillDefaults(v any, s *jsonschema.Schema, within ...*jsonschema.Schema) (filled bool) {
	if s == nil {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.Properties {
			if sub == nil {
				continue
			}
			around := within
			if _, given := v[name]; !given && sub.Default != nil {
				var value any
				if slices.Contains(within, sub) || json.Unmarshal(sub.Default, &value) != nil {
					continue
				}
				v[name], filled, around = value, true, append(slices.Clone(within), sub)
			}
			filled = fillDefaults(v[name], sub, around...) || filled
		}
	case []any:
		for _, item := range v {
			filled = fillDefaults(item, s.Items, within...) || filled
		}
	}
	return filled
}

// rewritten applies a change to the value in a JSON text. The function "change" reports whether it changed something.
// Numbers keep the form in which they were written.
func rewritten(raw json.RawMessage, change func(v any) bool) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || !change(v) { // the error cannot occur, because raw was already parsed
		return raw
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return raw
	}
	return bytes.TrimSpace(out.Bytes())
}

// validate checks the values against the whole schema. If the schema of a single parameter is violated, the
// violation contains the name of the parameter.
func (s *Schema) validate(values map[string]any) []Violation {
	err := s.resolved.Validate(values)
	if err == nil {
		return nil
	}
	var bad []Violation
	for _, p := range s.params {
		if v, given := values[p.Name]; given && p.alone != nil {
			if err := p.alone.Validate(v); err != nil {
				bad = append(bad, Violation{
					Kind: Constraint, Param: p.Name, Message: fmt.Sprintf("parameter %q: %s", p.Name, reason(err)),
				})
			}
		}
	}
	if bad == nil {
		bad = []Violation{{Kind: Constraint, Message: reason(err)}}
	}
	return bad
}

// isPlain reports whether a schema constrains its properties only by types, enums and bounds.
func isPlain(root *jsonschema.Schema, order []string) bool {
	rest := *root
	rest.Properties, rest.Required, rest.PropertyOrder = nil, nil, nil
	rest.Type, rest.Title, rest.Description, rest.Schema, rest.ID = "", "", "", "", ""
	if rest.AdditionalProperties != nil && isFalse(rest.AdditionalProperties) {
		rest.AdditionalProperties = nil
	}
	if !isEmpty(&rest) {
		return false
	}
	for _, name := range order {
		p := *root.Properties[name]
		p.Type, p.Types, p.Title, p.Description, p.Default, p.Enum, p.Minimum, p.Maximum, p.Extra, p.Deprecated = "",
			nil, "", "", nil, nil, nil, nil, nil, false
		if p.Items != nil {
			items := *p.Items
			items.Type, items.Types, items.Description = "", nil, ""
			if !isEmpty(&items) {
				return false
			}
			p.Items = nil
		}
		if !isEmpty(&p) {
			return false
		}
	}
	return true
}

func isEmpty(s *jsonschema.Schema) bool {
	b, err := json.Marshal(s)
	return err == nil && s.Enum == nil && (string(b) == "true" || string(b) == "{}") // an empty enum is not in the text
}

func (p *Param) check(v any) *Violation {
	if got := jsonType(v); len(p.Types) > 0 && !p.Is(got) {
		return &Violation{Kind: WrongType, Param: p.Name,
			Message: fmt.Sprintf("parameter %q must be %s, not %s", p.Name, p.TypeName(), describe(v))}
	}
	if p.Enum != nil && !slices.ContainsFunc(p.Enum, func(e any) bool { return equal(e, v) }) {
		return &Violation{Kind: NotInEnum, Param: p.Name,
			Message: fmt.Sprintf("parameter %q must be one of %s, not %s", p.Name, strings.Join(p.EnumNames(), ", "),
				describe(v))}
	}
	if n, ok := v.(float64); ok {
		if p.min != nil && n < *p.min || p.max != nil && n > *p.max {
			return &Violation{Kind: Constraint, Param: p.Name,
				Message: fmt.Sprintf("parameter %q must be %s, not %s", p.Name, p.bounds(), decimal(n))}
		}
	}
	if list, ok := v.([]any); ok && len(p.ItemTypes) > 0 {
		for i, item := range list {
			if got := jsonType(item); !typesAllow(p.ItemTypes, got) {
				return &Violation{Kind: WrongType, Param: p.Name,
					Message: fmt.Sprintf("parameter %q must be %s, but its element %d is %s", p.Name, p.TypeName(), i+1, describe(item))}
			}
		}
	}
	return nil
}

// isText reports whether the parameter accepts all strings and nothing else.
func (p *Param) isText() bool { return len(p.Types) == 1 && p.Types[0] == "string" && p.Enum == nil }

func (p *Param) bounds() string {
	switch {
	case p.max == nil:
		return "at least " + decimal(*p.min)
	case p.min == nil:
		return "at most " + decimal(*p.max)
	}
	return "from " + decimal(*p.min) + " to " + decimal(*p.max)
}

// decimal returns a number without an exponent, as users write it.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// plainInteger rewrites an integer such as 10.0 or 1e3 to decimal digits, which all programs can read.
func plainInteger(raw json.RawMessage, n float64) json.RawMessage {
	if !bytes.ContainsAny(raw, ".eE") || n != math.Trunc(n) || math.Abs(n) >= 1<<63 {
		return raw
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

func jsonType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func describe(v any) string {
	b, err := json.Marshal(v)
	if err != nil || len(b) > 60 {
		return "the " + jsonType(v) + " given"
	}
	return jsonType(v) + " " + string(b)
}

func equal(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// reason returns the text of a validation error without the path that the library puts before it.
func reason(err error) string {
	msg := err.Error()
	if i := strings.LastIndex(msg, "validating "); i >= 0 {
		if _, rest, ok := strings.Cut(msg[i:], ": "); ok {
			return rest
		}
	}
	return msg
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
