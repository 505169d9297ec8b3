package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"

	"toolhost.dev/sdk/tool"
)

// Reply is the structured data of a result together with the other parts of the result, such as the text and the
// effects. A handler that returns a Reply or a *Reply declares the output schema of T; see [NewTool].
type Reply[T any] struct {
	// Value becomes the field Data of the result.
	Value T
	Result
}

// replier is implemented by every [Reply].
type replier interface {
	parts() (value any, res Result)
	valueType() reflect.Type
}

func (r Reply[T]) parts() (value any, res Result) { return r.Value, r.Result }

func (Reply[T]) valueType() reflect.Type { return reflect.TypeFor[T]() }

var untyped = reflect.TypeFor[*Result]()

// outputSchema returns the schema of the data of a handler's results, or nil if Out is *Result.
func outputSchema[Out any]() (json.RawMessage, error) {
	t := reflect.TypeFor[Out]()
	if t == untyped || t == untyped.Elem() {
		if t != untyped {
			return nil, fmt.Errorf("the handler returns sdk.Result; return *sdk.Result")
		}
		return nil, nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if r, ok := reflect.Zero(t).Interface().(replier); ok {
		t = r.valueType()
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil, fmt.Errorf("the data has the type %s; return a struct, a map, an sdk.Reply that holds a struct or a map, or *sdk.Result", t)
	}
	return schemaFor(t)
}

// resultOf returns the result for the return values of a handler. If err is set, the result contains no data from a
// Value. It is then the returned *Result, or consists of the other fields of the Reply.
func resultOf(out any, err error) (*Result, error) {
	if r, ok := out.(*Result); ok {
		return r, err
	}
	if v := reflect.ValueOf(out); !v.IsValid() ||
		(v.Kind() == reflect.Pointer || v.Kind() == reflect.Map) && v.IsNil() {
		return nil, err
	}
	var res Result
	value := out
	if r, ok := out.(replier); ok {
		value, res = r.parts()
	}
	if err != nil {
		return &res, err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, Errorf(tool.Internal, "The tool's data of type %T cannot be represented in JSON: %w. Report this to the plugin's author.", value, err)
	}
	res.Data = data
	if res.Output == "" {
		if s, ok := value.(fmt.Stringer); ok {
			res.Output = s.String()
		} else {
			res.Output = string(data)
		}
	}
	return &res, nil
}

// maxSessionState is the maximum size of a session's state, in bytes.
const maxSessionState = 1 << 20

// SessionState returns the state that an earlier call stored in the session by [SetSessionState]. Without a state, it
// returns the zero value.
func SessionState[T any](call *Call) (T, error) {
	var state T
	if len(call.SessionState) == 0 {
		return state, nil
	}
	if err := json.Unmarshal(call.SessionState, &state); err != nil {
		return state, Errorf(tool.Internal, "The state of the session is not of the type %T: %w. Another version of the plugin probably stored it. Begin a new session.", state, err)
	}
	return state, nil
}

// SetSessionState stores a state for the next call of this plugin in the session. JSON must be able to represent state.
// The tool must not be read-only, because the host ignores the states of read-only tools.
func SetSessionState(res *Result, state any) error {
	b, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if len(b) > maxSessionState {
		return Errorf(tool.ExecutionFailed, "The state of the session has %d bytes; at most %d are stored. Keep large data in Call.Store or in a file.", len(b), maxSessionState)
	}
	res.SessionState = b
	return nil
}
