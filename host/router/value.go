package router

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// coerce converts a text to a JSON value of one of the given types. A string keeps its exact text.
func coerce(types []string, text string) (json.RawMessage, error) {
	if len(types) == 0 {
		return guess(text), nil
	}
	for _, t := range types {
		if v, ok := as(t, text); ok {
			return v, nil
		}
	}
	names := slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	return nil, fmt.Errorf("%q is not %s", shorten(text), article(strings.Join(names, " or ")))
}

func as(typ, text string) (json.RawMessage, bool) {
	switch typ {
	case "string":
		return quoteJSON(text), true
	case "integer":
		return integer(text)
	case "number":
		return number(text)
	case "boolean":
		v, ok := boolean(text)
		return json.RawMessage(strconv.FormatBool(v)), ok
	case "null":
		return json.RawMessage("null"), text == "null"
	case "array", "object":
		raw := bytes.TrimSpace([]byte(text))
		open := map[string]byte{"array": '[', "object": '{'}[typ]
		return raw, len(raw) > 0 && raw[0] == open && json.Valid(raw)
	}
	return nil, false
}

// integer converts a decimal integer of any size to JSON.
func integer(text string) (json.RawMessage, bool) {
	digits, sign := text, ""
	switch {
	case strings.HasPrefix(text, "-"):
		digits, sign = text[1:], "-"
	case strings.HasPrefix(text, "+"):
		digits = text[1:]
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits, sign = "0", ""
	}
	return json.RawMessage(sign + digits), true
}

// number converts a decimal number to JSON. If the text is valid JSON, its digits do not change.
func number(text string) (json.RawMessage, bool) {
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, false
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), true
	}
	v, err := json.Marshal(f)
	return v, err == nil
}

// guess converts a text to JSON for a parameter without a type. The text of a number, a boolean, an array or an object
// becomes a value of this type. Any other text becomes a string.
func guess(text string) json.RawMessage {
	for _, t := range []string{"integer", "number", "array", "object"} {
		if v, ok := as(t, text); ok {
			return v
		}
	}
	if v, ok := boolean(text); ok {
		return json.RawMessage(strconv.FormatBool(v))
	}
	return quoteJSON(text)
}

func boolean(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "1", "on":
		return true, true
	case "false", "no", "0", "off":
		return false, true
	}
	return false, false
}

func isBoolean(s string) bool {
	_, ok := boolean(s)
	return ok
}

// arrayItems parses a JSON array.
func arrayItems(text string) ([]json.RawMessage, bool) {
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return nil, false
	}
	var items []json.RawMessage
	err := json.Unmarshal([]byte(text), &items)
	return items, err == nil
}

// quoteJSON encodes a string as JSON without HTML escapes.
func quoteJSON(s string) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // ignore the error: strings can always be encoded
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "…"
	}
	return s
}

func article(s string) string {
	if s != "" && strings.ContainsRune("aeiou", rune(s[0])) {
		return "an " + s
	}
	return "a " + s
}
