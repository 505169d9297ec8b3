package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// PathKeyword is a schema keyword. It marks a string parameter, or an array of strings, as a path in the workspace. The
// host checks such paths before the call. The values are "read", "write" and "diff". The value "diff" means a unified
// diff that changes files.
const PathKeyword = "x-toolhost-path"

// RareKeyword is a schema keyword. The value true marks a parameter that few calls need. The host accepts the parameter
// and shows it in help. For bundled tools, the definitions that models receive omit the parameter.
const RareKeyword = "x-toolhost-rare"

// HiddenKeyword is a schema keyword. The value true marks an optional parameter that the host accepts and shows
// nowhere. It is for what callers guess and the tool does not have: the tool then names the way to do it.
const HiddenKeyword = "x-toolhost-hidden"

// Schema is a parsed input schema. It is immutable and safe for concurrent use.
type Schema struct {
	params   []*Param
	byName   map[string]*Param
	open     bool // true if the schema accepts parameters that it does not declare
	plain    bool // true if Check can check the whole schema without the library
	verbatim bool
	resolved *jsonschema.Resolved
}

// Verbatim returns the same schema for a tool of another program, such as an MCP server: Check returns its arguments
// without defaults, because those are for the reader and the program has its own.
func (s *Schema) Verbatim() *Schema {
	out := *s
	out.verbatim = true
	return &out
}

// Param is a parameter that the schema declares.
type Param struct {
	Name        string
	Description string
	// Types lists names of JSON Schema types. An empty list means that any type is allowed.
	Types []string
	// ItemTypes lists the types of an array's items. An empty list means that any type is allowed.
	ItemTypes []string
	Required  bool
	// Default is the default value as JSON. A nil Default means that the parameter has no default.
	Default json.RawMessage
	// Enum lists the allowed values as decoded JSON. A nil Enum means that any value is allowed.
	Enum []any
	// Path is "read" or "write" for a path in the workspace, and "diff" for a unified diff. Otherwise it is empty.
	Path string
	// Deprecated means that the parameter will be removed. The description names the replacement.
	Deprecated bool
	// Hidden means that calls can have the parameter, but that help and definitions leave it out.
	Hidden bool

	schema   *jsonschema.Schema // with references replaced by their targets
	nested   bool               // true for an object or an array, which can contain nulls
	defaults bool               // true if the value can contain objects with defaults
	min, max *float64
	alone    *jsonschema.Resolved // nil if the parameter's schema refers to other definitions of the whole schema
}

// The values of [Param.Path].
const (
	PathRead  = "read"
	PathWrite = "write"
	PathDiff  = "diff"
)

// Signature contains the data that a caller needs to assign arguments to a tool's parameters.
type Signature struct {
	Schema *Schema
	// Stdin is the name of the parameter that receives the text of a heredoc or of standard input. It can be empty.
	Stdin string
	// Program is the program of the shell that has the same name as the tool. It can be nil.
	Program *Program
	// Names maps additional names to parameters. The additional names are defined by an alias of the tool. A name
	// that begins with a dash is a short flag. A name that maps to "" is accepted and ignored.
	Names map[string]string
}

// NameOf returns the name of a parameter for callers. If the parameter has exactly one additional name that is not a
// short flag, NameOf returns the additional name. Otherwise it returns the parameter's own name.
func (s *Signature) NameOf(param string) string {
	best := ""
	for name, to := range s.Names {
		if to != param || strings.HasPrefix(name, "-") {
			continue
		}
		if best != "" {
			return param
		}
		best = name
	}
	if best == "" {
		return param
	}
	return best
}

// ParseSchema parses an input schema. The argument "raw" must be a JSON Schema of type object in which all required
// properties are defined. Otherwise ParseSchema returns an error.
func ParseSchema(raw json.RawMessage) (*Schema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the schema is empty; for a tool without parameters use {\"type\":\"object\"}")
	}
	var root jsonschema.Schema
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("the schema is not a JSON Schema: %w", err)
	}
	if root.Type != "object" {
		return nil, fmt.Errorf("the schema has the type %q; the type must be \"object\"", root.Type)
	}
	for name, sub := range root.Properties {
		if sub == nil {
			return nil, fmt.Errorf("the property %q is null; for a property of any type use {}", name)
		}
	}
	for _, r := range root.Required {
		if root.Properties[r] == nil {
			return nil, fmt.Errorf("the required property %q is not defined in properties", r)
		}
	}
	if err := knownTypes(&root); err != nil {
		return nil, err
	}
	if root.Schema = knownDraft(root.Schema); !strings.Contains(root.Schema, "draft-07") &&
		!bytes.Contains(raw, []byte("/items/")) { // a reference can lead to a listed item
		tuples(&root)
	}
	refs := newReferences(raw, &root)
	if ref := refs.endless(); ref != "" {
		return nil, fmt.Errorf("the reference %q in the schema leads back to itself or to too many schemas; let it lead to a schema without that reference", ref)
	}
	resolved, err := root.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, fmt.Errorf("a reference in the schema does not resolve: %w", err)
	}
	order, err := propertyOrder(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{resolved: resolved, byName: make(map[string]*Param)}
	s.open = isOpen(&root)
	s.plain = isPlain(&root, order)
	for _, name := range slices.Concat(root.Required, order) {
		if s.byName[name] != nil {
			continue
		}
		p := newParam(name, root.Properties[name], refs)
		p.Required = slices.Contains(root.Required, name)
		s.params = append(s.params, p)
		s.byName[name] = p
	}
	return s, nil
}

// knownDraft returns the name of a draft that the library can check, for the value of $schema. Older drafts than 7 are
// read as draft 7, and all other values as draft 2020-12.
func knownDraft(name string) string {
	for _, draft := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
		if strings.Contains(name, "json-schema.org/"+draft) {
			return "http://json-schema.org/draft-07/schema#"
		}
	}
	if strings.HasSuffix(name, "json-schema.org/draft/2020-12/schema") {
		return name
	}
	return ""
}

// tuples converts lists of items, as the drafts before 2020-12 write them, to the form of draft 2020-12.
func tuples(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.ItemsArray != nil && s.PrefixItems == nil {
		s.PrefixItems, s.Items, s.ItemsArray, s.AdditionalItems = s.ItemsArray, s.AdditionalItems, nil, nil
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems,
		[]*jsonschema.Schema{s.Items, s.Contains, s.UnevaluatedItems, s.PropertyNames,
			s.AdditionalProperties, s.UnevaluatedProperties, s.Not, s.If, s.Then, s.Else}) {
		tuples(part)
	}
	for _, parts := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.Defs, s.Definitions,
		s.DependentSchemas, s.DependencySchemas} {
		for _, part := range parts {
			tuples(part)
		}
	}
}

// isOpen reports whether an object can have properties that its schema does not declare at the top. A schema that
// declares some properties is closed, although JSON Schema calls it open, because most unknown names are misspelled.
func isOpen(s *jsonschema.Schema) bool {
	if s.AdditionalProperties != nil {
		return !isFalse(s.AdditionalProperties) || len(s.PatternProperties) > 0
	}
	return len(s.Properties) == 0 || len(s.PatternProperties) > 0 ||
		s.UnevaluatedProperties != nil && !isFalse(s.UnevaluatedProperties) || declaresMore(s, s.Properties)
}

// declaresMore reports whether a schema, or a part of it for the same object, declares a property that is not in the
// map.
func declaresMore(s *jsonschema.Schema, declared map[string]*jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	for name := range s.Properties {
		if declared[name] == nil {
			return true
		}
	}
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.If, s.Then, s.Else},
		slices.Collect(maps.Values(s.DependentSchemas)), slices.Collect(maps.Values(s.DependencySchemas)))
	others := cmp.Or(s.AdditionalProperties, s.UnevaluatedProperties)
	return s.Ref != "" || len(s.PatternProperties) > 0 || others != nil && !isFalse(others) ||
		slices.ContainsFunc(parts, func(part *jsonschema.Schema) bool { return declaresMore(part, declared) })
}

// typeNames lists the type names of JSON Schema.
var typeNames = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// knownTypes returns an error if the schema contains an unknown type name. Without this check, the unknown name
// would be noticed only when the tool refuses every call.
func knownTypes(s *jsonschema.Schema) error {
	for _, name := range append(slices.Clone(s.Types), s.Type) {
		if name != "" && !slices.Contains(typeNames, name) {
			return fmt.Errorf("unknown type %q; use one of %s", name, strings.Join(typeNames, ", "))
		}
	}
	within := slices.Concat(s.AnyOf, s.OneOf, s.AllOf, s.PrefixItems, []*jsonschema.Schema{
		s.Items, s.AdditionalProperties,
	})
	for _, sub := range within {
		if sub != nil {
			if err := knownTypes(sub); err != nil {
				return err
			}
		}
	}
	for _, all := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.Defs} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name] == nil {
				continue
			}
			if err := knownTypes(all[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func newParam(name string, declared *jsonschema.Schema, refs *references) *Param {
	sub := refs.follow(declared)
	p := &Param{
		Name: name, Description: cmp.Or(declared.Description, sub.Description), Types: typesOf(sub),
		Default: sub.Default, Enum: sub.Enum, Deprecated: declared.Deprecated || sub.Deprecated,
		schema: sub, min: sub.Minimum, max: sub.Maximum, nested: hasParts(sub),
		defaults: hasDefaults(sub, make(map[*jsonschema.Schema]bool)),
	}
	p.ItemTypes = itemTypesOf(sub)
	var n float64
	if p.Only("integer") && json.Unmarshal(p.Default, &n) == nil {
		p.Default = plainInteger(p.Default, n)
	}
	if use, ok := sub.Extra[PathKeyword].(string); ok {
		p.Path = use
	}
	p.Hidden = sub.Extra[HiddenKeyword] == true || declared.Extra[HiddenKeyword] == true
	if alone := refs.alone(declared); alone != nil {
		p.alone, _ = alone.Resolve(nil) // without the parameter's own schema, a violation names no parameter
	}
	return p
}

// hasParts reports whether the values of a schema are objects or arrays with declared parts.
func hasParts(s *jsonschema.Schema) bool {
	return len(s.Properties) > 0 || s.Items != nil ||
		slices.ContainsFunc(slices.Concat(s.AnyOf, s.OneOf, s.AllOf), hasParts)
}

// hasDefaults reports whether fillDefaults can add a value with a schema. The map "seen" contains the visited schemas.
func hasDefaults(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	for _, sub := range s.Properties {
		if sub != nil && (sub.Default != nil || hasDefaults(sub, seen)) {
			return true
		}
	}
	return hasDefaults(s.Items, seen)
}

// typesOf returns the types that a schema allows. It derives them from the schema's type, from the types of all
// alternatives, or from the allowed values. If the types are unknown, it returns nil.
func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	if s.Types != nil {
		return s.Types
	}
	for _, part := range s.AllOf { // a value must fit all parts; parts with different types are rare
		if t := typesOf(part); t != nil {
			return t
		}
	}
	var types []string
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		t := typesOf(alternative)
		if t == nil {
			return nil
		}
		types = append(types, t...)
	}
	for _, v := range s.Enum {
		types = append(types, jsonType(v))
	}
	if s.Const != nil {
		types = append(types, jsonType(*s.Const))
	}
	return unique(types)
}

// itemTypesOf returns the types that the items of an array can have. If the types are unknown, or differ with the
// position of the item, it returns nil.
func itemTypesOf(s *jsonschema.Schema) []string {
	switch {
	case len(s.PrefixItems) > 0 || len(s.ItemsArray) > 0:
		return nil
	case s.Items != nil:
		return typesOf(s.Items)
	}
	for _, part := range s.AllOf {
		if t := itemTypesOf(part); t != nil {
			return t
		}
	}
	var types []string
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		if t := typesOf(alternative); t != nil && !slices.Contains(t, "array") {
			continue
		}
		t := itemTypesOf(alternative)
		if t == nil {
			return nil
		}
		types = append(types, t...)
	}
	return unique(types)
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func isFalse(s *jsonschema.Schema) bool {
	b, err := json.Marshal(s)
	return err == nil && string(b) == "false"
}

// propertyOrder returns the names under "properties" in the order of the text.
func propertyOrder(raw []byte) ([]string, error) {
	var top struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(raw, &top); err != nil || len(top.Properties) == 0 {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(top.Properties))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var names []string
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return nil, err
		}
		names = append(names, fmt.Sprint(name)) // the names in a JSON object are strings
	}
	return names, nil
}

// Params returns the parameters in positional order. The required parameters come first, in the order of "required".
// The others follow in the order of "properties". The caller must not change the slice.
func (s *Schema) Params() []*Param { return s.params }

// Param returns the parameter with exactly the given name. If no parameter has this name, it returns nil.
func (s *Schema) Param(name string) *Param { return s.byName[name] }

// Open reports whether the schema accepts parameters that it does not declare.
func (s *Schema) Open() bool { return s.open }

// Is reports whether the parameter accepts values of the JSON type typ.
func (p *Param) Is(typ string) bool {
	return len(p.Types) == 0 || typesAllow(p.Types, typ)
}

func typesAllow(types []string, typ string) bool {
	return slices.Contains(types, typ) || typ == "integer" && slices.Contains(types, "number")
}

// Only reports whether typ is the only type that the parameter accepts. The type null does not count.
func (p *Param) Only(typ string) bool {
	found := false
	for _, t := range p.Types {
		if t != typ && t != "null" {
			return false
		}
		found = found || t == typ
	}
	return found
}

// TypeName returns the parameter's type for messages to a person, such as "string" or "array of string".
func (p *Param) TypeName() string {
	if len(p.Types) == 0 {
		return "any"
	}
	var names []string
	for _, t := range p.Types {
		if t == "array" && len(p.ItemTypes) > 0 {
			t = "array of " + strings.Join(p.ItemTypes, " or ")
		}
		if t != "null" || len(p.Types) == 1 {
			names = append(names, t)
		}
	}
	return strings.Join(names, " or ")
}

// EnumNames returns the allowed values as a person would type them.
func (p *Param) EnumNames() []string {
	var out []string
	for _, e := range p.Enum {
		if s, ok := e.(string); ok {
			out = append(out, s)
			continue
		}
		b, _ := json.Marshal(e)
		out = append(out, string(b))
	}
	return out
}

// names returns the names of all parameters, in positional order.
func (s *Schema) names() []string {
	var out []string
	for _, p := range s.params {
		out = append(out, p.Name)
	}
	return out
}
