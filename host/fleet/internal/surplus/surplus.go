// Package surplus keeps fields of records that this version of toolhost does not know because a later version added
// them. [Decode] returns these fields, and [Encode] adds them again. So they are not lost when an older node writes the
// record.
package surplus

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"toolhost.dev/host/fleet/internal/failpoint"
)

// Fields are the unknown fields of an object in JSON.
type Fields map[string]json.RawMessage

// Decode decodes an object into a struct. It returns the fields that the struct does not have.
func Decode(b []byte, to any) (Fields, error) {
	if err := json.Unmarshal(b, to); err != nil {
		return nil, err
	}
	var all Fields
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	t := reflect.TypeOf(to).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// Encode encodes a struct with additional fields. If both contain a field, the field of the struct is used.
func Encode(v any, more Fields) ([]byte, error) {
	b, err := json.Marshal(v)
	if later := failpoint.Later(); later != nil {
		more = maps.Clone(more)
		if more == nil {
			more = make(Fields)
		}
		maps.Copy(more, later)
	}
	if err != nil || len(more) == 0 {
		return b, err
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(b, []byte("}")))
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(more[name])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
