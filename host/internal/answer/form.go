package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
)

// answerRequests answers the requests of a plugin to a client that only knows questions: it asks one question for each
// field of a form. Such a client has neither a model nor roots.
func answerRequests(ctx context.Context, c call.Client, requests []tool.ClientRequest) (tool.Answer, error) {
	results := make(map[string]any)
	for _, r := range requests {
		switch r.Method {
		case tool.MethodRoots:
			results[r.Key] = map[string]any{"roots": []any{}}
		case tool.MethodElicit:
			content, outcome, err := fillIn(ctx, c, r.Params)
			if err != nil || outcome != tool.Accepted {
				return tool.Answer{Outcome: outcome, Message: "the form was not filled in"}, err
			}
			results[r.Key] = map[string]any{"action": "accept", "content": content}
		default:
			return tool.Answer{Outcome: tool.NobodyToAsk, Message: "the caller has no model"}, nil
		}
	}
	b, err := json.Marshal(results)
	return tool.Answer{Outcome: tool.Accepted, Content: b}, err
}

// form is the schema of a form.
type form struct {
	Properties json.RawMessage `json:"properties"`
	Required   []string        `json:"required"`
}

// fields returns the fields of a form in their order, the required ones first.
func (f *form) fields() ([]field, error) {
	var out []field
	for name, raw := range rawjson.Members(f.Properties) {
		one := field{name: name, required: slices.Contains(f.Required, name)}
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(out, func(o field) bool { return o.name == name }); i >= 0 {
			out[i] = one // of two members with the same name, the last one counts
			continue
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y field) int {
		switch {
		case x.required == y.required:
			return 0
		case x.required:
			return -1
		}
		return 1
	})
	return out, nil
}

// field is one field of a form.
type field struct {
	name     string
	required bool

	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []choice        `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []choice `json:"anyOf"`
	} `json:"items"`
	MinItems int  `json:"minItems"`
	MaxItems *int `json:"maxItems"`
}

// choice is one of the values of a field.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// choices returns the values that a field can have, or nil if it can have any value of its type. Each choice has a
// title. The titles differ.
func (f *field) choices() []choice {
	out := slices.Concat(f.OneOf, f.Items.AnyOf)
	for i, value := range slices.Concat(f.Enum, f.Items.Enum) {
		c := choice{Const: value}
		if len(f.EnumNames) == len(f.Enum) && i < len(f.EnumNames) {
			c.Title = f.EnumNames[i]
		}
		out = append(out, c)
	}
	if f.Type == "boolean" {
		return []choice{{"true", "yes"}, {"false", "no"}}
	}
	seen := make(map[string]bool)
	for i := range out {
		if out[i].Title == "" || seen[out[i].Title] {
			out[i].Title = out[i].Const
		}
		seen[out[i].Title] = true
	}
	return out
}

// fillIn asks the questions of a form.
func fillIn(ctx context.Context, c call.Client, params json.RawMessage) (map[string]any, tool.Outcome, error) {
	var p struct {
		Mode, Message, URL string
		RequestedSchema    form
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, tool.Declined, nil //nolint:nilerr // the plugin gets the outcome
	}
	if p.Mode == "url" {
		p.Message += "\nOpen " + p.URL + " and continue there."
	}
	fields, err := p.RequestedSchema.fields()
	if err != nil {
		return nil, tool.Declined, nil //nolint:nilerr // see above
	}
	content := make(map[string]any)
	if len(fields) == 0 {
		agreed, outcome, err := askField(ctx, c, p.Message, &field{Type: "boolean", required: true})
		if err == nil && outcome == tool.Accepted && agreed != true {
			outcome = tool.Declined
		}
		return content, outcome, err
	}
	for _, f := range fields {
		text := p.Message
		for _, more := range []string{f.Title, f.Description, f.name} {
			if more != "" {
				text += "\n" + more
				break
			}
		}
		value, outcome, err := askField(ctx, c, text, &f)
		if err != nil || outcome != tool.Accepted {
			return nil, outcome, err
		}
		if value != nil {
			content[f.name] = value
		}
	}
	return content, tool.Accepted, nil
}

// defaults returns the default of a field in the format of answers, a list of strings.
func (f *field) defaults() []string {
	var value any
	if json.Unmarshal(f.Default, &value) != nil {
		return nil
	}
	var out []string
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		for _, item := range v {
			out = append(out, fmt.Sprint(item))
		}
	case string:
		out = []string{v}
	default:
		out = []string{string(f.Default)} // a number as it was written, or a boolean
	}
	for i, value := range out {
		for _, c := range f.choices() {
			if c.Const == value {
				out[i] = c.Title
			}
		}
	}
	return out
}

// maxAttempts is the number of times that the user is asked for one value.
const maxAttempts = 3

// askField asks for one value. The value is nil if the answer contains none. After an answer that the field cannot
// have, it asks again.
func askField(ctx context.Context, c call.Client, text string, f *field) (any, tool.Outcome, error) {
	q := tool.Question{Text: text, Multiple: f.Type == "array", Optional: !f.required, Defaults: f.defaults()}
	for _, o := range f.choices() {
		q.Options = append(q.Options, o.Title)
	}
	q.FreeText = len(q.Options) == 0
	for range maxAttempts {
		answer, err := c.Ask(ctx, tool.Ask{Question: &q})
		if err != nil || answer.Outcome != tool.Accepted {
			return nil, answer.Outcome, err
		}
		if len(answer.Values) == 0 && !f.required {
			return nil, tool.Accepted, nil
		}
		value, err := f.value(answer.Values)
		if err == nil {
			return value, tool.Accepted, nil
		}
		q.Text = text + "\n" + err.Error()
	}
	return nil, tool.NobodyToAsk, nil
}

// value converts an answer to a value of the field.
func (f *field) value(given []string) (any, error) {
	if f.Type == "array" {
		out := make([]string, 0, len(given))
		for _, one := range given {
			value, err := f.choose(one)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		switch {
		case len(out) < f.MinItems:
			return nil, fmt.Errorf("Choose at least %d.", f.MinItems) //nolint:staticcheck // a sentence for the user
		case f.MaxItems != nil && len(out) > *f.MaxItems:
			return nil, fmt.Errorf("Choose at most %d.", *f.MaxItems) //nolint:staticcheck // see above
		}
		return out, nil
	}
	if len(given) != 1 {
		return nil, errors.New("Give one answer.") //nolint:staticcheck // a sentence for the user
	}
	text := strings.TrimSpace(given[0])
	switch f.Type {
	case "boolean":
		value, err := f.choose(text)
		return value == "true", err
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number.", text) //nolint:staticcheck // see above
		}
		return n, nil
	case "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return nil, fmt.Errorf("%q is not a number.", text) //nolint:staticcheck // see above
		}
		return n, nil
	}
	if len(f.choices()) > 0 {
		return f.choose(text)
	}
	return given[0], nil
}

// choose returns the value of the choice that an answer names.
func (f *field) choose(given string) (string, error) {
	given = strings.TrimSpace(given)
	all := f.choices()
	for _, c := range all {
		if given == c.Title || given == c.Const {
			return c.Const, nil
		}
	}
	found := ""
	for _, c := range all { // "y" and "Yes" mean "yes"
		same := strings.EqualFold(given, c.Title) || f.Type == "boolean" && strings.EqualFold(given, c.Title[:1])
		if same && found != "" && found != c.Const {
			found = ""
			break
		}
		if same {
			found = c.Const
		}
	}
	if found == "" {
		return "", fmt.Errorf("%q is not one of the choices.", given) //nolint:staticcheck // a sentence for the user
	}
	return found, nil
}
